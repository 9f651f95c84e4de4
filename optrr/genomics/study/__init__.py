"""What privacy costs an association study: protocols compared on the same people at the same total ε.

    study = run_study(cohort, StudyOptions((1, 4, 16), people=(2000, 20_000), trait=SimulatedTrait(10, odds_ratio=1.3)))
    study.to_pandas()

``options`` has the totals and protocols to compare, ``people`` the sample and its statuses, ``ways`` makes the
protocols, ``measures`` compares with the truth, ``running`` draws, ``result`` is the table and ``pages`` the report.
``por`` has the table of a SNP in POR §V-B.
"""

from optrr.genomics.study.options import StudyOptions
from optrr.genomics.study.people import SimulatedTrait
from optrr.genomics.study.result import Outcome, Study
from optrr.genomics.study.running import run_study
from optrr.genomics.study.ways import METHODS, record_tables

__all__ = ["METHODS", "Outcome", "SimulatedTrait", "Study", "StudyOptions", "record_tables", "run_study"]
