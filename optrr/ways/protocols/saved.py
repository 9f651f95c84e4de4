"""Reading a way of asking back, whatever kind it is: what ``optrr perturb`` and ``optrr estimate`` take."""

from __future__ import annotations

from optrr.designs.asking import Asking
from optrr.designs.design import Design
from optrr.releases.sealed import SAMPLED_TABLES, kind_of
from optrr.releases.small_files import Given, content_of


def load_asking(path: Given) -> Asking:
    """The design or the sampled tables of a file that :meth:`optrr.designs.asking.Asking.save` wrote.

    Raises
    ------
    InvalidInput
        where the file is missing, malformed, of an unknown version, or states a number that does not hold.
    """
    path = content_of(path, "design file")
    if kind_of(path) != SAMPLED_TABLES:
        return Design.load(path)
    from optrr.ways.protocols.sampled_tables import SampledTables  # noqa: PLC0415 (most files hold a design)

    return SampledTables.load(path)
