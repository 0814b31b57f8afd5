"""The user guide: Markdown pages, one a family."""

project = "Tulle"
copyright = "the Tulle engineers"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Tulle"
myst_heading_anchors = 3
