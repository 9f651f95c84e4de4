"""Plan a survey: choose a privacy budget, compare it with alternatives, and record the decision.

``question`` holds the input, ``preview`` the accuracy of a choice, ``meaning`` its effect on one person's privacy, and
``plan`` the recorded decision, with its ``statement`` for an ethics board and the folder of files for the survey.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
