from .tradeoffs import cap_tradeoff as cap_tradeoff
from .workload import WantedTable as WantedTable
