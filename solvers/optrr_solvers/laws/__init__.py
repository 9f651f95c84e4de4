"""Laws: which attributes change together, and how often. One law, one module."""

from optrr_solvers.laws.base import Law
from optrr_solvers.laws.block import BlockLaw
from optrr_solvers.laws.count import CountLaw
from optrr_solvers.laws.few_changes import FewChangesLaw
from optrr_solvers.laws.product import ProductLaw
from optrr_solvers.laws.table import TableLaw

__all__ = ["BlockLaw", "CountLaw", "FewChangesLaw", "Law", "ProductLaw", "TableLaw"]
