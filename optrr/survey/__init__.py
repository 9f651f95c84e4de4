"""A survey whose answers are randomized where they are given: its page, its collector, its results.

``preparing`` makes what is served, and looks for all that can be wrong before it opens. ``app`` answers over HTTP with the
files in ``page``, and checks reports; ``server`` runs it, says who gives way when too many connections are open, and guards
every answer. ``store`` gathers reports while others are being written, and has them on disk before they are acknowledged, in
SQLite or PostgreSQL. ``stored_records`` hands them on, and ``results`` makes tables of them and shows these to whoever is
admitted.
"""
