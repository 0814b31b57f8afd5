"""Condensation: groups of records, their statistics, and pseudo-data drawn from them."""

from __future__ import annotations

from tulle.condense._classes import approximate_gcd

__all__ = ["approximate_gcd"]
