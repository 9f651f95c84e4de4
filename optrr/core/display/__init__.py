"""Display of results: text, rounded numbers, tables, charts, and the privacy statements beside them.

``result`` is what every answer can do: be a table, data and text. ``parts`` are the pieces a page is made of, and ``pages``
what pages of results have in common.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
__version__ = "0.1.0"
# Name of the software in files and HTML reports.
SOFTWARE = f"optrr {__version__}"
