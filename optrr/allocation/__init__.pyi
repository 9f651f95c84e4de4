from .variances import variance_design as variance_design
from .workload import WantedTable as WantedTable
