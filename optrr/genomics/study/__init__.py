"""What privacy costs an association study: ways to ask compared on the same people at the same total ε.

    study = run_study(cohort, StudyOptions((1, 4, 16), people=(2000, 20_000), trait=PlantedTrait(10, odds_ratio=1.3)))
    study.to_pandas()

``options`` says what is compared, ``people`` whom a study asks and who of them is a case, ``ways`` and ``curators`` make the
ways to ask of local and of other trust, ``measures`` compares with the truth, ``running`` draws, ``result`` is the table and
``pages`` the report.
``por`` has the table of a SNP in POR §V-B.
"""

from optrr.genomics.study.options import METHODS, StudyOptions
from optrr.genomics.study.people import PlantedTrait
from optrr.genomics.study.result import Outcome, Study
from optrr.genomics.study.running import run_study
from optrr.genomics.study.ways import record_tables

__all__ = ["METHODS", "Outcome", "PlantedTrait", "Study", "StudyOptions", "record_tables", "run_study"]
