"""Releases: the note beside randomized records, privacy accounting over several of them, and bounds on what is read whole.

``provenance`` is the note, inside the file or in a sidecar; it refuses records of another design, and records that are
randomized already. ``accounting`` adds up the ε of releases, and of the steps of one protocol. ``sealed`` reads our files:
whole, up to a size, with every key once.
"""
