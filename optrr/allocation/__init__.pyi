from .workload import WantedTable as WantedTable
