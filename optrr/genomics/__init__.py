"""Association studies on protected genotypes: read, design, randomize, test, compare (POR §V-B).

    cohort = read_cohort(Path("true.bed"))
    associations = design(cohort, total=8).randomize(cohort).scan()
    associations.write_tsv(Path("results.tsv"))

``asking`` is this way in; its steps can be taken one by one: ``genomic_design``, ``records_of``, ``randomize_records``.

Genotypes are read in ``plink``, ``vcf`` and ``csv_genotypes``. By an ``association_design`` everybody answers about a few
variants only (``sampled_variants``, ``sampled_scan``). ``scan`` walks over the variants and makes their table; the
statistics and p-values come from ``tests``, odds ratios from ``odds``. ``sight`` says which odds ratios designs see, before
anybody is asked, and ``study`` compares them on given people.

The same as commands: ``optrr gwas-design``, ``gwas-perturb``, ``gwas``, and ``gwas-study`` for what it costs.
"""

from __future__ import annotations

from optrr.genomics.asking import (
    AssociationDesign,
    GenomicDesign,
    GenomicReports,
    VariantAnswers,
    association_design,
    design,
)
from optrr.genomics.cohort import Cohort, read_cohort, read_genotypes, read_panel
from optrr.genomics.designing import Budget, Wanted, aligned, genomic_design
from optrr.genomics.genotypes import Genotypes, MatrixGenotypes, Variants, allele_pairs
from optrr.genomics.layout import Layout, genomic_domain, layout_of, star_kernel
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.genomics.planned import PlannedScan
from optrr.genomics.randomize import randomize_records, randomized_cohort, records_of, write_plink, write_records
from optrr.genomics.scan import Associations, ScanOptions, scan
from optrr.genomics.sight import Sight, compared_ways, sight
from optrr.genomics.study import PlantedTrait, Study, StudyOptions, run_study
from optrr.genomics.tests import Scores, naive_score_test, score_test

__all__ = [
    "AssociationDesign",
    "Associations",
    "Budget",
    "Cohort",
    "GenomicDesign",
    "GenomicReports",
    "Genotypes",
    "Layout",
    "MatrixGenotypes",
    "PhenotypeColumns",
    "PlannedScan",
    "PlantedTrait",
    "ScanOptions",
    "Scores",
    "Sight",
    "Study",
    "StudyOptions",
    "VariantAnswers",
    "Variants",
    "Wanted",
    "aligned",
    "allele_pairs",
    "association_design",
    "compared_ways",
    "design",
    "genomic_design",
    "genomic_domain",
    "layout_of",
    "naive_score_test",
    "randomize_records",
    "randomized_cohort",
    "read_cohort",
    "read_genotypes",
    "read_panel",
    "records_of",
    "run_study",
    "scan",
    "score_test",
    "sight",
    "star_kernel",
    "write_plink",
    "write_records",
]
