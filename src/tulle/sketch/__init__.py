"""Sketches of text and sparse baskets: short vectors that keep similarity."""

from tulle.sketch.miners import SketchKMeans, SketchKNeighborsClassifier
from tulle.sketch.sketcher import Sketcher
from tulle.sketch.sketches import Sketches

__all__ = ["SketchKMeans", "SketchKNeighborsClassifier", "Sketcher", "Sketches"]
