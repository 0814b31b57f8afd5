"""Measures: how much of the data a release keeps, one idea per file, pure functions on arrays."""
