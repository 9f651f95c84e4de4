"""Laws: which attributes change together, and how often.

A noise distribution is a subclass of ``Law`` (``base``) in a separate module: ``ball``, ``block``, ``count``,
``few_changes``, ``product``; ``TableLaw``, over all change sets, is next to ``Law``. Those with a ``kind`` can be
written to files. The other modules support them: one weighted ball and its sums, totals of weights, samplers, tilts.
"""

from optrr_solvers.laws.ball import BallLaw as BallLaw
from optrr_solvers.laws.ball import MixedBall as MixedBall
from optrr_solvers.laws.base import Law as Law
from optrr_solvers.laws.base import TableLaw as TableLaw
from optrr_solvers.laws.block import BlockLaw as BlockLaw
from optrr_solvers.laws.count import CountLaw as CountLaw
from optrr_solvers.laws.few_changes import FewChangesLaw as FewChangesLaw
from optrr_solvers.laws.product import ProductLaw as ProductLaw
from optrr_solvers.laws.weighted_ball import WeightedBall as WeightedBall
