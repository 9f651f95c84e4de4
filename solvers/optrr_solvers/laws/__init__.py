"""Laws: which attributes change together, and how often.

A law is a subclass of ``Law`` (``base``) in a module of its own: ``ball``, ``block``, ``count``, ``few_changes``, ``product``;
that of all change sets, ``TableLaw``, stands beside ``Law``. Those with a ``kind`` can stand in a file. The other modules help
them: one weighted ball and its sums, totals of weights, samplers, tilts.
"""

from optrr_solvers.laws.ball import BallLaw, MixedBall
from optrr_solvers.laws.base import Law, TableLaw
from optrr_solvers.laws.block import BlockLaw
from optrr_solvers.laws.count import CountLaw
from optrr_solvers.laws.few_changes import FewChangesLaw
from optrr_solvers.laws.product import ProductLaw
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
