"""Pages that can be sent: one HTML file each.

A module for each kind of result: ``design_page``, ``estimate_page``, ``test_page``, ``advice_pages``, and
``table_page`` for all that are one table; ``demonstration`` is the page of ``optrr demo``. ``sections`` are shared,
and ``writing`` makes files.
"""
