"""Releases: provenance of randomized records, privacy accounting over several releases, and size limits of files.

``provenance`` is the note, inside the file or in a sidecar; it refuses records of another design, and records that are
randomized already. ``accounting`` adds up the ε of releases, and of the steps of one protocol. ``sealed`` reads our files:
whole, up to a size, with every key once.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
