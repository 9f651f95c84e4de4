"""Laws: which attributes change together, and how often.

A law is a subclass of ``Law`` (``base``) in a module of its own: ``ball`` and ``weighted_ball``, ``block``,
``count``, ``few_changes``, ``product``, ``table``. Those with a ``kind`` can stand in a file: they are listed at the
end of this file, and ``record`` reads them by it. The other modules help them: sums over change sets, samplers,
bounds, and functions that make laws of some shape.
"""

from optrr_solvers.laws.ball import BallLaw, MixedBall
from optrr_solvers.laws.base import KINDS, Law
from optrr_solvers.laws.block import BlockLaw
from optrr_solvers.laws.count import CountLaw
from optrr_solvers.laws.few_changes import FewChangesLaw
from optrr_solvers.laws.product import ProductLaw
from optrr_solvers.laws.table import TableLaw
from optrr_solvers.laws.weighted_ball import WeightedBall

__all__ = [
    "BallLaw",
    "BlockLaw",
    "CountLaw",
    "FewChangesLaw",
    "Law",
    "MixedBall",
    "ProductLaw",
    "TableLaw",
    "WeightedBall",
]

KINDS.update({law.kind: law for law in (BallLaw, BlockLaw, CountLaw, FewChangesLaw, ProductLaw, TableLaw)})
