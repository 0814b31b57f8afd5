"""Estimates from releases: questions, what a release answers, and how far that may be off."""
