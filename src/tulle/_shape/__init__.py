"""Synthesis that keeps the shape of a table: cells, trees and condensed groups."""
