"""Core of the package: declare, design, randomize, open, estimate, test, verify.

``domain`` declares attributes; ``design`` finds and certifies a mechanism, ``protocols`` those of the papers;
``mechanisms`` randomize, ``records`` read, count and write; ``estimation`` and ``inference`` analyse; ``provenance``
records releases; ``display`` shows results. ``reports`` opens randomized records, ``files`` reads and writes every file
of the package. The core imports no other package of optrr.
"""

import lazy_loader as lazy

_PACKAGES = (
    "design",
    "display",
    "domain",
    "estimation",
    "inference",
    "mechanisms",
    "protocols",
    "provenance",
    "records",
)

__getattr__, __dir__, __all__ = lazy.attach(__name__, _PACKAGES)
