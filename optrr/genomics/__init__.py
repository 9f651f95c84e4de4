"""Association studies on protected genotypes: read, design, randomize, test, compare (POR §V-B).

    cohort = read_cohort(Path("true.bed"))
    associations = design(cohort, total=8).randomize(cohort).scan()
    associations.write_tsv(Path("results.tsv"))

``asking`` is this way in; its steps can be taken one by one: ``genomic_design``, ``records_of``, ``randomize_records``.

Genotypes are read in ``cohort``, ``plink`` and ``vcf``, brought to a design's alleles in ``alleles``, and written in
``writing``. With an ``association_design`` each participant answers about a few variants only (``sampled_variants``,
``sampled_scan``). ``scan`` walks over the variants and makes their table; the statistics and p-values come from
``score_tests``, odds ratios from ``odds``, and ``result_files`` has the table as others read it; with public
``covariates``, strata or a trait it is made in ``adjusting``. ``variant_report`` estimates frequencies, call rates and
Hardy–Weinberg proportions. ``power`` predicts the detectable odds ratios of designs before data collection, and
``study`` compares designs on given people.

Where people randomize at home, ``person`` reads one person's file, and ``person_reports`` makes the one report that is
drawn of it, and a cohort of many reports.

The same as commands: ``optrr gwas design``, ``gwas randomize``, ``gwas scan``, ``gwas variants``, and ``gwas study``
for the loss of accuracy.
"""

from optrr.genomics.alleles import aligned
from optrr.genomics.asking import (
    AssociationDesign,
    GenomicDesign,
    GenomicReports,
    association_design,
    design,
)
from optrr.genomics.cohort import Cohort, read_cohort, read_genotypes
from optrr.genomics.covariates import CovariateColumns
from optrr.genomics.designing import Budget, Wanted, genomic_design
from optrr.genomics.genotypes import MatrixGenotypes, Variants
from optrr.genomics.layout import genomic_domain, layout_of
from optrr.genomics.person import read_person
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.genomics.power import PlannedScan, Sight, sight
from optrr.genomics.randomize import randomize_records, randomized_cohort, records_of
from optrr.genomics.scan import Associations, scan
from optrr.genomics.study import SimulatedTrait, Study, StudyOptions, run_study
from optrr.genomics.variant_report import VariantReport
from optrr.genomics.writing import write_plink, write_records

__all__ = [
    "AssociationDesign",
    "Associations",
    "Budget",
    "Cohort",
    "CovariateColumns",
    "GenomicDesign",
    "GenomicReports",
    "MatrixGenotypes",
    "PhenotypeColumns",
    "PlannedScan",
    "Sight",
    "SimulatedTrait",
    "Study",
    "StudyOptions",
    "VariantReport",
    "Variants",
    "Wanted",
    "aligned",
    "association_design",
    "design",
    "genomic_design",
    "genomic_domain",
    "layout_of",
    "randomize_records",
    "randomized_cohort",
    "read_cohort",
    "read_genotypes",
    "read_person",
    "records_of",
    "run_study",
    "scan",
    "sight",
    "write_plink",
    "write_records",
]
