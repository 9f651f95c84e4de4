"""Surveys with answers randomized in the browser: the page, the collector of reports, and the results.

``preparing`` builds the served survey and checks everything before it opens. ``app`` is the HTTP application: it serves
the files in ``page``, and checks reports; ``server`` runs it with limits on connections, and ``guard`` on every
request. ``store`` writes reports in batches to SQLite or PostgreSQL before they are acknowledged. ``stored_records``
reads them as randomized records, and ``results`` computes tables and shows them to users with the token.
"""
