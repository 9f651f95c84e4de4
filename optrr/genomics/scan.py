"""Association tests of every variant of a randomized cohort, under the design that randomized it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optrr.errors import InvalidInput
from optrr.genomics.associations import FEW_EXPECTED, Associations
from optrr.genomics.cohort import Cohort
from optrr.genomics.effects import PairEigenvalues
from optrr.genomics.layout import Layout
from optrr.genomics.odds import OddsRatios, odds_ratios
from optrr.genomics.scores import ASSUMING, ASSUMPTION, TESTS, Scores, naive_score_test, score_test
from optrr.genomics.star import star_eigenvalues
from optrr.genomics.tables import Progress, all_tables
from optrr.records.domain import listed
from optrr_solvers.laws import Law
from optrr_solvers.problem import IntArray

# Variants tested at once: about 40 arrays of 8 cells each, 20 MB.
_VARIANTS = 8192


@dataclass(frozen=True)
class ScanOptions:
    """``test``: one of TESTS; ``naive``: also the test that ignores the mechanism, which is not valid."""

    test: str = "trend"
    naive: bool = False

    def __post_init__(self) -> None:
        if self.test not in TESTS:
            raise InvalidInput(f"unknown test {self.test!r}; choose among {', '.join(TESTS)}")


def scan(
    cohort: Cohort, law: Law, layout: Layout, options: ScanOptions = ScanOptions(), progress: Progress | None = None
) -> Associations:
    """Tests of all variants of randomized genotypes.

    Time O(n V); memory one block of genotypes and about 400 bytes a variant.

    Parameters
    ----------
    cohort
        randomized genotypes and randomized status; its variants must be among the design's.
    law, layout
        of the design that randomized them.
    progress
        told how many of how many variants are done.

    Raises
    ------
    InvalidInput
        where a variant is not in the design, or the layout is not one of genotypes.
    """
    if layout.status is None:
        raise InvalidInput("this design randomizes alleles; its records are tested by scan_alleles")
    eigenvalues = cohort_eigenvalues(cohort, law, layout)
    tables = all_tables(cohort, layout.missing, progress)
    return associations(cohort, tables, eigenvalues, options, layout.missing)


def cohort_eigenvalues(cohort: Cohort, law: Law, layout: Layout) -> PairEigenvalues:
    """λ of each of the cohort's variants, of the status, and of each pair; see :mod:`optrr.genomics.star`."""
    assert layout.status is not None
    position = {name: k for k, name in enumerate(layout.names)}
    strangers = [name for name in cohort.variants.name if name not in position]
    if strangers:
        raise InvalidInput(
            f"{len(strangers)} variants are not in the design ({listed(strangers)}): it did not randomize them; use the "
            "design file these records were randomized with"
        )
    at = np.array([position[name] for name in cohort.variants.name], dtype=np.int64)
    return star_eigenvalues(law, layout.attributes[at, 0], layout.status)


def associations(
    cohort: Cohort, tables: IntArray, eigenvalues: PairEigenvalues, options: ScanOptions, missing: bool = False
) -> Associations:
    """Tests from counted tables, shape (V, R, 2); variants without any call are left out and counted."""
    n = tables.sum(axis=(1, 2))
    kept = np.flatnonzero(n > 0)
    skipped = dict(cohort.genotypes.skipped)
    warnings = []
    if kept.size < n.size:
        gone = cohort.variants.name[n == 0].tolist()
        skipped["all calls missing"] = len(gone)
        warnings.append(f"{len(gone)} variants without any call were left out: {listed(gone)}")
    if not kept.size:
        raise InvalidInput("no variant has a single call; nothing can be tested")
    incomplete = int(np.sum(n[kept] < cohort.n))
    if incomplete and not missing:
        warnings.append(
            f"{incomplete} variants have missing calls, left out one by one: which calls are missing is not randomized and no "
            "epsilon covers it"
        )
    lam = PairEigenvalues(
        *(x if x.size == 1 else x[kept] for x in (eigenvalues.row, eigenvalues.column, eigenvalues.joint))
    )
    scores, odds, naive = _in_pieces(tables[kept], lam, options)
    warnings += _doubts(scores, odds, options.test)
    return Associations(
        cohort.variants.take(kept), options.test, n[kept], scores, odds, naive, skipped, tuple(warnings)
    )


def _in_pieces(
    tables: IntArray, eigenvalues: PairEigenvalues, options: ScanOptions
) -> tuple[Scores, OddsRatios, Scores | None]:
    pieces = [slice(k, k + _VARIANTS) for k in range(0, tables.shape[0], _VARIANTS)]
    scores = Scores.joined([score_test(tables[p], eigenvalues.take(p), options.test) for p in pieces])
    odds = OddsRatios.joined([odds_ratios(tables[p], eigenvalues.take(p)) for p in pieces])
    naive = Scores.joined([naive_score_test(tables[p], options.test) for p in pieces]) if options.naive else None
    return scores, odds, naive


def _doubts(scores: Scores, odds: OddsRatios, test: str) -> list[str]:
    out = []
    undefined = int(np.sum(~np.isfinite(scores.p_value)))
    if undefined:
        out.append(f"{undefined} variants show no variation that the {test} test could use; their p-values are NA")
    few = int(np.sum(scores.expected < FEW_EXPECTED))
    if few and test == "genotypic":
        out.append(
            f"{few} variants have a cell with fewer than {FEW_EXPECTED:g} expected observations (EXPECTED); their genotypic "
            "p-values rest on a normal approximation that does not hold there: use the trend test"
        )
    if test == "allelic":
        out.append("the allelic test takes people, not alleles, for independent: its statistics are the trend test's")
    if test == ASSUMING:
        out.append(ASSUMPTION)
    outside = int(np.sum(~np.isfinite(odds.log_ratio)))
    if outside:
        out.append(f"{outside} variants have an estimated frequency outside 0..1 in cases or controls; their OR is NA")
    return out
