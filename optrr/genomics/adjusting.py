"""The scan of randomized genotypes adjusted for public covariates, and its table.

The null models, statistics and effects of a block of variants are those of :mod:`optrr.genomics.adjusted_scan`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optrr.errors import InvalidInput
from optrr.genomics.adjusted import adjusted_scores
from optrr.genomics.adjusted_scan import AdjustedScan
from optrr.genomics.cohort import Cohort
from optrr.genomics.covariates import CovariateValues
from optrr.genomics.inflation import Inflation, Visible
from optrr.genomics.layout import Layout
from optrr.genomics.scan import Associations, ScanOptions, about_missing_calls, cohort_kernel
from optrr.genomics.tests import Progress, Scores, copy_tables, genotype_tables
from optrr.genomics.thresholds import NO_THRESHOLDS, Filtered, Thresholds, filtered, people_with
from optrr.show.text import amount
from optrr.tables.estimation.impossible import Observed, impossible_tables
from optrr_solvers.arrays import FloatArray
from optrr_solvers.laws import Law


def refuse_adjusted(options: ScanOptions) -> None:
    """Raise InvalidInput for what a scan with covariates does not have."""
    if options.test != "trend":
        raise InvalidInput(
            f"the {options.test} test takes no covariates; leave the test out, which adjusts the trend test"
        )
    if options.naive:
        raise InvalidInput("the naive test takes no covariates; leave out one of them")


def adjusted_scan(  # noqa: PLR0913 (people, the design's two, what is adjusted for, what is left out)
    cohort: Cohort,
    law: Law,
    layout: Layout,
    values: CovariateValues,
    thresholds: Thresholds = NO_THRESHOLDS,
    progress: Progress | None = None,
) -> Associations:
    """Tests of all variants, as :func:`optrr.genomics.scan`, adjusted for public values of the people.

    ``thresholds`` leave variants out by the reports of the people who have all values.

    Time O(n V p²) for p covariates; memory one block of genotypes and some arrays of a quarter million doubles.

    Raises
    ------
    InvalidInput
        as :func:`optrr.genomics.scan`; where the people with all values are only cases, or only controls.
    """
    if layout.status is None:
        raise InvalidInput("covariates are for the genotype layout, and this design randomizes alleles")
    scan = AdjustedScan(cohort, cohort_kernel(cohort, law, layout), values, layout.missing)
    if not scan.is_linear and np.unique(scan.status).size < 2:
        raise InvalidInput("the people with all covariates are only cases, or only controls; nothing can be compared")
    scan.check_comparable()
    v, rows = len(cohort.variants), 4 if layout.missing else 3
    tables, status = np.zeros((v, rows, 2), dtype=np.int64), cohort.status[values.rows]
    tests, done = {name: np.full(v, np.nan) for name in ("statistic", "p", "n", "seen", "error", "most")}, 0
    linear, filters = 0, _filtered(scan, thresholds)
    for at, group, codes, shared in scan.blocks(filters.kept):
        reports = scan.reports(at, group, codes)
        model = shared or scan.model(group, reports)
        scores = adjusted_scores(reports, group.copies, model, values.only_strata, scan.trait_of(group))
        tests["statistic"][at], tests["n"][at] = scores.statistic, np.rint(scores.n)
        tests["p"][at] = scan.p_values(at, group, codes, scores)
        for name, share in zip(("seen", "error", "most"), scan.visible(scores, group), strict=True):
            tests[name][at] = share
        tables[at] = genotype_tables(codes, status[group.people], layout.missing)
        linear += 0 if model.is_trait else int(np.broadcast_to(model.linear, at.shape).sum())
        done += at.size
        if progress is not None:
            progress(done, v)
    counted = np.flatnonzero(tables.any(axis=(1, 2)))
    seen = Observed("a variant × status", tables[counted], scan.kernel.part(counted))
    return _table(scan, tests, filters, (*impossible_tables([seen]), *scan.doubts(linear)))


def _filtered(scan: AdjustedScan, thresholds: Thresholds) -> Filtered:
    """Which variants are tested; where there are no thresholds the genotypes are not looked at for it."""
    if not thresholds:
        return Filtered(np.ones(len(scan.cohort.variants), dtype=np.bool_), {}, ())
    c, rows = scan.cohort, scan.values.rows
    counted = Cohort(c.genotypes, c.rows[rows], c.status[rows], male=None if c.male is None else c.male[rows])
    tables = copy_tables(counted, scan.missing)
    out = filtered(tables, scan.kernel, thresholds, people_with(counted, 1), scan.missing)
    out.check_some()
    return out


def _table(scan: AdjustedScan, tests: dict[str, FloatArray], filters: Filtered, doubts: Sequence[str]) -> Associations:
    """The result. Variants without any call are left out and counted."""
    kept = np.flatnonzero(tests["n"] > 0)
    if not kept.size:
        raise InvalidInput("no variant has a single call of somebody with all covariates; nothing can be tested")
    n, p = tests["n"][kept].astype(np.int64), tests["p"][kept]
    one, tested = np.ones(kept.size, dtype=np.int64), np.flatnonzero(np.isfinite(p))
    unknown = np.full(kept.size, np.nan)
    scores = Scores(tests["statistic"][kept], one, p, unknown, None, tested, n[tested].astype(np.float64), -one)
    inflation = Inflation.of(scores, _visible(*(tests[name][kept][tested] for name in ("seen", "error", "most"))))
    effects, gone = scan.effects(~np.isfinite(tests["p"])), int(np.sum(tests["n"] == 0))
    named = "linear" if scan.is_linear else "cmh" if scan.values.only_strata else "add-cov"
    return Associations(
        scan.cohort.variants.take(kept),
        named,
        n,
        scores,
        lambda which: effects(kept[which]),
        None,
        dict(scan.cohort.genotypes.skipped) | ({"all calls missing": gone} if gone else {}) | filters.skipped,
        inflation,
        (
            *inflation.warnings(),
            *doubts,
            *filters.warnings,
            *_of_variants(scan, tests, tested.size),
            *scan.cohort.relatedness(),
        ),
        None,
        str(scan.values),
    )


def _of_variants(scan: AdjustedScan, tests: dict[str, FloatArray], tested: int) -> list[str]:
    """What to say of variants without variation, and of missing calls."""
    people = np.array([scan.groups[str(kind)].people.sum() for kind in scan.kinds])
    some = tests["n"] > 0
    without = scan.cohort.variants.name[(tests["n"] == 0) & (people > 0)].tolist()
    incomplete = 0 if scan.missing else int(np.sum(some & (tests["n"] < people)))
    out = about_missing_calls(without, incomplete)
    if tested < some.sum():
        undefined = amount(int(some.sum()) - tested, "variant")
        out.append(f"p-values are NA for {undefined} without variation that the test could use, given the covariates")
    return out


def _visible(seen: FloatArray, error: FloatArray, most: FloatArray) -> Visible:
    """The mean share of the variance that people themselves make, with its standard error."""
    if not seen.size:
        return Visible()
    total = float(np.sqrt(np.sum(error**2))) / seen.size
    return Visible(float(seen.mean()), total, min(float(most.mean()), 1.0))
