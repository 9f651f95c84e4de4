"""From a question to a budget that one can defend: what a choice means, what it buys, what it is recorded as.

``question`` is what is asked, ``preview`` what a choice buys, ``meaning`` what it means for one person, and ``plan`` the
recorded decision, with its ``statement`` and all that it hands over.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
