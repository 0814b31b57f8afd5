"""Measures: how much of the data a release keeps, one idea a file, pure functions on arrays."""
