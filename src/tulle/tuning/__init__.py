"""The search for the group size."""

from tulle.tuning.search import GroupSizeSearch

__all__ = ["GroupSizeSearch"]
