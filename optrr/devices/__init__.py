"""Designs on devices: ``deployment`` writes and checks the files by which clients randomize, ``auditing`` tries a client."""
