"""A survey whose answers are randomized where they are given: its page, its collector, its results.

Before it opens, ``starting`` looks for all that can be wrong, and ``preparing`` makes what is served. ``app`` answers
over HTTP, ``server`` runs it, and ``crowd`` says who gives way when too many connections are open. A report is
checked in ``incoming``; ``group_commit`` gathers reports while others are being written; ``store`` writes them, and
has them on disk before they are acknowledged; ``database`` is where: SQLite or PostgreSQL; ``database_files`` notices
when SQLite's files are no longer where they were opened. ``stored_records`` hands them on, ``results`` and
``results_web`` show what they say, to whom ``session`` lets in.
"""
