"""Association tests of every variant of a randomized cohort, under the design that randomized it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optrr.errors import InvalidInput, warn
from optrr.estimation.impossible import Observed, impossible_tables
from optrr.genomics.associations import Associations
from optrr.genomics.cohort import Cohort
from optrr.genomics.layout import Layout
from optrr.genomics.noise import naive_is_harmless, naive_shift, visible_share
from optrr.genomics.odds import odds_ratios
from optrr.genomics.scores import ASSUMPTION, Scores, naive_score_test, score_test
from optrr.genomics.star import star_kernel
from optrr.genomics.tables import Progress, all_tables
from optrr.inference.conditional import FEW_EXPECTED
from optrr.inference.genotypes import ASSUMING, GENOTYPE_TESTS
from optrr.kernel import EffectKernel
from optrr.printable import amount
from optrr.records.domain import listed
from optrr_solvers.arrays import IntArray
from optrr_solvers.laws import Law


@dataclass(frozen=True)
class ScanOptions:
    """``test``: one of GENOTYPE_TESTS; ``naive``: also the test that ignores the mechanism."""

    test: str = "trend"
    naive: bool = False

    def __post_init__(self) -> None:
        if self.test not in GENOTYPE_TESTS:
            raise InvalidInput(f"unknown test {self.test!r}; choose among {', '.join(GENOTYPE_TESTS)}")


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
    kernel = cohort_kernel(cohort, law, layout)
    tables = all_tables(cohort, layout.missing, progress)
    warn(impossible_tables([Observed("a variant × status", tables, kernel)]))
    return associations(cohort, tables, kernel, options, layout.missing)


def cohort_kernel(cohort: Cohort, law: Law, layout: Layout) -> EffectKernel:
    """The kernel of each of the cohort's variants beside the status, or one where all have the same; see `star`.

    A kernel without a batch serves all tables, and takes a part of the time.
    """
    assert layout.status is not None
    position = dict(zip(layout.names, range(len(layout.names)), strict=True))
    names = cohort.variants.name.tolist()
    places = list(map(position.get, names))
    unknown = [name for name, place in zip(names, places, strict=True) if place is None]
    if unknown:
        raise InvalidInput(
            f"the records have {amount(len(unknown), 'variant')} that the design did not randomize ({listed(unknown)}); use "
            "the design file these records were randomized with"
        )
    kernel = star_kernel(law, layout.attributes[np.array(places, dtype=np.int64), 0], layout.status)
    return kernel.part(0) if (kernel.eigenvalues == kernel.eigenvalues[0]).all() else kernel


def associations(
    cohort: Cohort, tables: IntArray, kernel: EffectKernel, options: ScanOptions, missing: bool = False
) -> Associations:
    """Tests from counted tables, shape (V, R, 2); variants without any call are left out and counted."""
    n = tables.sum(axis=(1, 2))
    kept = np.flatnonzero(n > 0)
    if not kept.size:
        raise InvalidInput("no variant has a single call; nothing can be tested")
    gone = cohort.variants.name[n == 0].tolist()
    skipped = dict(cohort.genotypes.skipped) | ({"all calls missing": len(gone)} if gone else {})
    incomplete = 0 if missing else int(np.sum(n[kept] < cohort.n))
    kernel, tables = kernel.part(kept), tables[kept]
    scores = score_test(tables, kernel, options.test)
    naive = naive_score_test(tables, options.test) if options.naive else None
    harmless = None
    if naive is not None and scores.fit is not None:
        harmless = naive_is_harmless(naive_shift(scores.fit, scores.n, options.test), scores.df, options.test)
    share = float("nan")
    if scores.fit is not None:
        share = float(np.median(visible_share(scores.fit, kernel.part(scores.tested), options.test)))
    return Associations(
        cohort.variants.take(kept),
        options.test,
        n[kept],
        scores,
        lambda which: odds_ratios(
            tables[which],
            kernel.part(which),
            fit=None if scores.independence is None else scores.independence.part(which),
        ),
        naive,
        skipped,
        (*_about_missing_calls(gone, incomplete), *_doubts(scores, options.test)),
        share,
        None if harmless is None else float(harmless.mean()),
    )


def _about_missing_calls(without_any: list[str], incomplete: int) -> list[str]:
    """What to say of variants ``without_any`` call, by name, and of how many others lack some people's calls."""
    out = []
    if without_any:
        out.append(f"{amount(len(without_any), 'variant')} without any call left out: {listed(without_any)}")
    if incomplete:
        out.append(
            f"missing calls of {amount(incomplete, 'variant')} were left out one by one: which calls are missing is not "
            "randomized and no epsilon covers it"
        )
    return out


def _doubts(scores: Scores, test: str) -> list[str]:
    out = []
    undefined = int(np.sum(~np.isfinite(scores.p_value)))
    if undefined:
        out.append(
            f"p-values are NA for {amount(undefined, 'variant')} without variation that the {test} test could use"
        )
    few = int(np.sum(scores.expected < FEW_EXPECTED))
    if few:
        source = "simulation" if scores.df > 1 else "saddlepoints"
        out.append(
            f"some cell of {amount(few, 'variant')} has fewer than {FEW_EXPECTED:g} observed records expected without an "
            f"association (EXPECTED); small p-values there come from {source}, not from the χ² limit"
        )
    if test == "allelic":
        out.append("the allelic test takes people, not alleles, for independent: its statistics are the trend test's")
    if test == ASSUMING:
        out.append(ASSUMPTION)
    return out
