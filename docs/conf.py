"""How the documentation site is built: `make docs` writes it to build/docs/html and executes every code block on the way.

What is particular to this site is in the package beside this file, `site_pages`; here is only what Sphinx and its extensions
are told.
"""

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

from site_pages import cells  # noqa: E402 (found only once the folder above is on the path)

import optrr  # noqa: E402

project = "optrr"
author = "The optrr authors"
copyright = "2026, the optrr authors"
version = release = optrr.__version__
language = "en"
smartquotes = False  # options begin with two hyphens

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
    "site_pages",
]
source_suffix = {".md": "myst-nb", ".rst": "restructuredtext"}

# Every reference must lead somewhere; site_pages.names says which of them nobody can follow.
nitpicky = True
suppress_warnings = [
    "myst.header",  # a result's headings stand two levels below those of the page that shows it
]

# Markdown
myst_enable_extensions = ["deflist", "dollarmath", "attrs_inline", "fieldlist"]
myst_heading_anchors = 4

# Code blocks. A cache saves a second execution only as long as neither a page's code nor the package has changed.
BUILT = DOCS.parent / "build" / "docs"
nb_execution_mode = "cache"
nb_execution_cache_path = str(BUILT / "executed" / cells.digest_of_code())
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_execution_raise_on_error = False  # the build fails by the warning, which shows the cell
nb_merge_streams = True
nb_execution_show_tb = True
cells.prepare_kernel(BUILT / "kernel")

# The Python reference. Types stand in the signatures; docstrings are numpy's style.
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_use_ivar = True
autosummary_generate = False

html_math_renderer = "mathml"

# The look. Nothing is loaded from elsewhere: the site is read offline as well.
html_theme = "pydata_sphinx_theme"
html_title = "optrr"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_sidebars = {"gallery": [], "quick-start": []}  # pages that stand alone
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_exclude = ".linenos, .gp, .go"
