"""A workload in one file of somebody else: the first attribute against every other, such as a status against its causes."""

from optrr.allocation.workload import WantedTable, Workload


class Star(Workload):
    word = "star"

    @classmethod
    def of(cls, domain):
        first, *others = domain.names
        return cls(tuple(WantedTable((first, other)) for other in others))
