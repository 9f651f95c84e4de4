"""A survey whose answers are randomized where they are given: its page, its collector, its results.

Before it opens, ``starting`` looks for all that can be wrong, and ``preparing`` makes what is served. ``app`` answers
over HTTP, ``server`` runs it, and ``crowd`` says who gives way when too many connections are open. A report is
checked in ``incoming``; ``store`` gathers reports while others are being written, and has them on disk before they are
acknowledged; ``database`` is where: SQLite or PostgreSQL. ``stored_records`` hands them on, ``result_tables`` makes tables of
them, and ``results`` shows these to whoever is admitted.
"""
