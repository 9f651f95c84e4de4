"""Association tests of every variant of a randomized cohort, under the design that randomized it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr.domain.domain import listed
from optrr.errors import InvalidInput, warn
from optrr.genomics.allele_names import refuse_turned
from optrr.genomics.associations import Associations
from optrr.genomics.chromosomes import copies, single_copy_chromosomes
from optrr.genomics.cohort import Cohort
from optrr.genomics.inflation import Inflation, visible_share
from optrr.genomics.layout import Layout
from optrr.genomics.noise import naive_is_harmless, naive_shift
from optrr.genomics.odds import odds_ratios
from optrr.genomics.scores import ASSUMPTION, Scores, naive_score_test, score_test
from optrr.genomics.single_copies import WARNING, single_copy_scores, with_odds_of_single_copies, with_single_copies
from optrr.genomics.star import star_kernel
from optrr.genomics.tables import CopyTables, Progress, copy_tables
from optrr.mechanisms.kernel import EffectKernel, unrandomized
from optrr.models.tests.conditional import FEW_EXPECTED
from optrr.models.tests.genotypes import ABSENT, ASSUMING, GENOTYPE_TESTS, counts_alleles
from optrr.show.printable import amount
from optrr.tables.estimation.impossible import Observed, impossible_tables
from optrr_solvers.arrays import FloatArray
from optrr_solvers.laws import Law

# Why variants are left out that the trend and genotypic tests have nobody for.
_NOBODY = "on a chromosome of which nobody has two copies: the allelic tests count single ones"


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
    tables = copy_tables(cohort, layout.missing, progress)
    warn(impossible_tables([Observed("a variant × status", tables.two, kernel)]))
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
    refuse_turned(cohort.variants, layout)
    kernel = star_kernel(law, layout.attributes[np.array(places, dtype=np.int64), 0], layout.status)
    return kernel.part(0) if (kernel.eigenvalues == kernel.eigenvalues[0]).all() else kernel


def associations(
    cohort: Cohort, tables: CopyTables, kernel: EffectKernel, options: ScanOptions, missing: bool = False
) -> Associations:
    """Tests from counted tables (V, R, 2); variants without any call are left out and counted.

    Only the allelic tests are of people who have one copy, too. The others are of those who have two: of women on chromosome X,
    of nobody on Y and MT, as PLINK's --model has it.
    """
    own = tables if counts_alleles(options.test) else CopyTables(tables.two, np.zeros_like(tables.one))
    people = own.people
    kept = np.flatnonzero(people > 0)
    if not kept.size:
        raise InvalidInput("no variant has a single call of somebody whom the test counts; nothing can be tested")
    kernel, n = kernel.part(kept), people[kept].astype(np.int64)
    scores, naive, harmless = _tested(own.part(kept), kernel, options)
    own, two = own.part(kept), tables.two[kept]
    inflation = Inflation.of(scores, visible_share(two, kernel, scores, options.test))
    fit = scores.independence
    odds = lambda which: odds_ratios(two[which], kernel.part(which), fit=None if fit is None else fit.part(which))  # noqa: E731
    skipped, said = _skipped(cohort, people, options, missing)
    return Associations(
        cohort.variants.take(kept),
        options.test,
        n,
        scores,
        with_odds_of_single_copies(odds, own, kernel) if own.one.any() else odds,
        naive,
        skipped,
        inflation,
        (*inflation.warnings(), *said, *_doubts(scores, options.test), *([WARNING] if own.one.any() else [])),
        None if harmless is None else float(harmless.mean()),
    )


def _tested(
    tables: CopyTables, kernel: EffectKernel, options: ScanOptions
) -> tuple[Scores, Scores | None, NDArray[np.bool_] | None]:
    """The scores, and where they are asked for the naive test's and whether it does harm."""
    scores = score_test(tables.two, kernel, options.test)
    naive = naive_score_test(tables.two, options.test) if options.naive else None
    harmless = None
    if naive is not None and scores.fit is not None:
        shift = naive_shift(scores.fit, scores.n, options.test)
        harmless = naive_is_harmless(shift, naive.df[scores.tested], options.test)
    at = np.flatnonzero(tables.one.any(axis=(1, 2)))
    if at.size:
        chosen = tables.part(at)
        scores = with_single_copies(scores, at, single_copy_scores(chosen, kernel.part(at), options.test))
        if naive is not None:
            ignored = single_copy_scores(chosen, unrandomized(kernel.sizes), options.test)
            naive = with_single_copies(naive, at, ignored)
    return scores, naive, harmless


def _skipped(
    cohort: Cohort, people: FloatArray, options: ScanOptions, missing: bool
) -> tuple[dict[str, int], list[str]]:
    """Variants left out by reason, and what to say of missing calls."""
    kinds = single_copy_chromosomes(cohort.variants.chromosome)
    fewest = 1 if counts_alleles(options.test) else 2
    wanted = np.zeros(kinds.size)
    for kind in set(kinds):
        wanted[kinds == kind] = np.count_nonzero(copies(str(kind), cohort.n, cohort.male) >= fewest)
    gone = cohort.variants.name[(people == 0) & (wanted > 0)].tolist()
    counts = {"all calls missing": len(gone), _NOBODY: int(np.count_nonzero(wanted == 0))}
    incomplete = 0 if missing else int(np.sum((people > 0) & (people < wanted)))
    skipped = dict(cohort.genotypes.skipped) | {reason: count for reason, count in counts.items() if count}
    return skipped, _about_missing_calls(gone, incomplete)


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
        source = "simulation" if (scores.df > 1).any() else "saddlepoints"
        out.append(
            f"some cell of {amount(few, 'variant')} has fewer than {FEW_EXPECTED:g} observed records expected without an "
            f"association (EXPECTED); small p-values there come from {source}, not from the χ² limit"
        )
    fewer = int(np.sum(scores.absent >= 0))
    if fewer:
        out.append(f"in {amount(fewer, 'variant')} {ABSENT} (DF)")
    if test == "allelic":
        out.append("the allelic test takes people, not alleles, for independent: its statistics are the trend test's")
    if test == ASSUMING:
        out.append(ASSUMPTION)
    return out
