"""The frontier: what releases of different k give and cost, and which of them passes."""

from __future__ import annotations

from tulle.exploring.explore import Exploration, explore

__all__ = ["Exploration", "explore"]
