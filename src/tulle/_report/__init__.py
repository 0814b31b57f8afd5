"""Reports: one plain dictionary in; HTML, JSON or Markdown out.

The report imports no family: :mod:`tulle._report.model` says what a result is made of.
"""

from __future__ import annotations

from tulle._report.render import markdown, render, save, to_json

__all__ = ["markdown", "render", "save", "to_json"]
