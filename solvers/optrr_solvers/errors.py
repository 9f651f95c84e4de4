"""Everything that can be wrong, as one family: catch `OptrrError` for all of it, or the kind that you can mend.

    OptrrError
      InvalidInput          data, a specification or a file cannot be used (also a ValueError)
        InvalidProblem      the specification is no design problem
        MethodTooLarge      the method cannot take a problem of this size
        Infeasible          no mechanism meets every constraint
        InvalidCertificate  the certificate does not fit its problem
      SolveFailed           an answer did not survive its check (also a RuntimeError)

Each message is one line: place, problem and remedy; never a person's true value.
"""

import traceback
from itertools import takewhile

# Packages whose code is ours, and no step of the user's.
_OURS = ("optrr", "optrr_solvers")


class OptrrError(Exception):
    """Base class of errors; the message is one line for the user.

    Examples
    --------
    >>> import optrr
    >>> try:
    ...     optrr.design({"sex": 2}, epsilons=-1)
    ... except optrr.OptrrError as error:
    ...     print(type(error).__name__)
    InvalidProblem
    """

    def _render_traceback_(self) -> list[str]:
        """Return the lines that notebooks show: the user's own code and the message.

        Frames of the package do not help to correct the input; ``traceback.print_exc()`` still shows them.
        """
        steps = traceback.walk_tb(self.__traceback__)
        own = [*takewhile(lambda step: str(step[0].f_globals.get("__name__")).partition(".")[0] not in _OURS, steps)]
        last = [s for s in traceback.StackSummary.extract(iter(own)) if s.line][-1:]
        return [*(f"line {s.lineno}: {s.line}" for s in last), f"{type(self).__name__}: {self}"]


class InvalidInput(OptrrError, ValueError):
    """Unusable data or specification; the message has place, problem and remedy.

    Examples
    --------
    >>> import optrr
    >>> try:
    ...     optrr.Domain.of({"sex": ["F"]})
    ... except optrr.InvalidInput as error:
    ...     print(error)
    attribute 'sex' has 1 categories; an attribute needs 2 to 1000000: drop it, it carries no information
    """


class InvalidProblem(InvalidInput):
    """Invalid design problem; the message has attribute, value and remedy.

    Examples
    --------
    >>> import optrr
    >>> try:
    ...     optrr.design({"sex": 2}, epsilons=-1)
    ... except optrr.InvalidProblem as error:
    ...     print(error)
    attribute 'sex' has epsilon -1.0; give a finite number of nats from 1e-06 to 50
    """


class MethodTooLarge(InvalidInput):
    """The method cannot take a problem of this size; the message names one that can.

    Examples
    --------
    >>> import optrr
    >>> try:
    ...     optrr.design({f"a{k}": 2 for k in range(40)}, 1.0, method="lp")
    ... except optrr.MethodTooLarge as error:
    ...     print(error)
    method 'lp' takes up to 14 attributes, got 40; use 'reduced' or 'auto'
    """


class Infeasible(InvalidInput):
    """No mechanism satisfies every constraint; the message states which to relax.

    Examples
    --------
    >>> import optrr
    >>> issubclass(optrr.Infeasible, optrr.InvalidInput)
    True
    """


class InvalidCertificate(InvalidInput):
    """The certificate does not fit its problem; the message states the difference."""


class SolveFailed(OptrrError, RuntimeError):
    """The backend's answer did not survive its check; nothing is returned.

    Examples
    --------
    >>> import optrr
    >>> issubclass(optrr.SolveFailed, RuntimeError)
    True
    """


def written(value: object, most: int = 60) -> str:
    """Format a value for messages as Python does, on one line, cut if long."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:
        return "a number of thousands of digits"  # which Python does not write
    return text if len(text) <= most else f"{text[:most]}…"
