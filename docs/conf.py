"""The user guide: one Markdown page per family, and the API reference from the docstrings."""

import re

project = "Tulle"
copyright = "the Tulle engineers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "pictures"]
html_theme = "furo"
html_title = "Tulle"
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say the types in words
napoleon_google_docstring = False
napoleon_custom_sections = ["What may leave"]
napoleon_use_ivar = True
add_module_names = False


def setup(app):
    """Link the measured tables as pages, and keep scikit-learn's own methods out."""
    app.connect("source-read", _link_to_results)
    app.connect("autodoc-skip-member", _skip_routing)


def _skip_routing(app, what, name, member, skip, options):
    """Leave out set_fit_request and the like, which scikit-learn adds to every estimator."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def _link_to_results(app, name, source):
    page = r"\[([^\]]*)\]\(\.\./benchmarks/results/([\w-]+)\.md\)"
    linked = re.sub(page, r"{doc}`\1 </results/\2>`", source[0])
    source[0] = linked.replace("../benchmarks/results/", "results/")


html_static_path = ["_static"]
html_css_files = ["width.css"]
