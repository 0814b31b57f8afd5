"""The user guide: Markdown pages, one a family."""

import re

project = "Tulle"
copyright = "the Tulle engineers"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "pictures"]
html_theme = "furo"
html_title = "Tulle"
myst_heading_anchors = 3


def setup(app):
    """Pages link to the measured tables where they are in the repository; here they are pages."""
    app.connect("source-read", _link_to_results)


def _link_to_results(app, name, source):
    page = r"\[([^\]]*)\]\(\.\./benchmarks/results/([\w-]+)\.md\)"
    linked = re.sub(page, r"{doc}`\1 </results/\2>`", source[0])
    source[0] = linked.replace("../benchmarks/results/", "results/")
