"""The scan of randomized genotypes adjusted for public covariates, block by block, and its table.

Statistics and p-values are those of :mod:`optrr.genomics.adjusted`, odds ratios and slopes those of
:mod:`optrr.genomics.adjusted_effects`.

Variants of chromosome X have sex as one more covariate, as plink2 --glm does, so that a status that is more frequent in
one sex causes no bias; males have codes 0 and 2 there. Of Y and MT, where a code is one copy or none, effects are per
copy.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from optrr.core.display import amount, counted
from optrr.core.domain import listed
from optrr.core.errors import InvalidInput
from optrr.core.estimation import Observed, chi_squared_tails, impossible_tables
from optrr.core.mechanisms import EffectKernel
from optrr.genomics import adjusted
from optrr.genomics.adjusted_effects import AdjustedEffects, status_effects, trait_effects
from optrr.genomics.cohort import Cohort
from optrr.genomics.covariates import NOT_COVERED, CovariateValues, told_apart
from optrr.genomics.genotypes import MISSING, Codes, copies, single_copy_chromosomes
from optrr.genomics.layout import Layout
from optrr.genomics.scan import Associations, Filtered, about_missing_calls, cohort_kernel, filtered
from optrr.genomics.score_tests import Progress, Scores, about_inflation, copy_tables, genotype_tables
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.laws import Law

# Genotypes that are taken at once: some twenty arrays of as many doubles.
_CELLS = 1 << 18
# Why variants are left out that there is nobody for.
_NOBODY = "on a chromosome without copies among the people in the comparison"
# What covariates leave of a status that they determine, of its variance, is at most this.
_DETERMINED = 0.01


@dataclass(frozen=True, eq=False)
class _Together:
    """Variants on one kind of chromosome, with the people, covariates and copies.

    ``alone`` counts people who are left out because they have a unique value of a covariate.
    """

    people: NDArray[np.bool_]
    columns: FloatArray
    copies: FloatArray
    single: NDArray[np.bool_] | None
    alone: int

    @classmethod
    def of(cls, kind: str, values: CovariateValues, male: NDArray[np.bool_] | None) -> "_Together":
        n = values.rows.size
        number = copies(kind, n, male)
        people = number > 0
        columns = values.columns[people]
        if kind == "X" and male is not None:
            columns = np.column_stack([columns, male.astype(np.float64)])
        # what varies among all people may not do so among those who have the chromosome
        others, columns = told_apart(columns)
        people[people] = others
        columns = np.column_stack([np.ones(int(people.sum())), columns])
        code = np.array([0.0, 0.5, 1.0]) if kind in ("Y", "MT") else np.array([0.0, 1.0, 2.0])
        return cls(people, columns, code, (number == 1)[people] if kind else None, int(np.sum(~others)))


@dataclass(frozen=True, eq=False)
class AdjustedScan:
    """Data of an adjusted scan.

    Randomized genotypes and status, the kernel of each variant, and the public covariates of the people.
    """

    cohort: Cohort
    kernel: EffectKernel
    values: CovariateValues
    missing: bool

    @property
    def is_linear(self) -> bool:
        """Whether it is the linear regression of a trait."""
        return self.values.trait is not None and not self.values.is_binary

    @cached_property
    def status(self) -> Codes:
        """Status of the people who are counted.

        The randomized status, or the public trait of two values, whose larger value marks cases.
        """
        trait = self.values.trait
        if trait is not None and self.values.is_binary:
            return np.asarray(trait == trait.max(), dtype=np.int8)
        return self.cohort.status[self.values.rows]

    @cached_property
    def pair_kernel(self) -> EffectKernel:
        """Kernel of genotype and y; y is not randomized if it is a trait."""
        if self.values.trait is None:
            return self.kernel
        eigenvalues = self.kernel.eigenvalues.copy()
        eigenvalues[..., 0, 1], eigenvalues[..., 1, 1] = 1.0, eigenvalues[..., 1, 0]
        return EffectKernel(self.kernel.sizes, eigenvalues, self.kernel.names)

    @cached_property
    def groups(self) -> dict[str, _Together]:
        """Variants grouped by kind of chromosome."""
        male = None if self.cohort.male is None else self.cohort.male[self.values.rows]
        return {kind: _Together.of(kind, self.values, male) for kind in map(str, set(self.kinds))}

    @cached_property
    def kinds(self) -> NDArray[np.object_]:
        """Kind of chromosome of every variant."""
        return single_copy_chromosomes(self.cohort.variants.chromosome)

    @cached_property
    def shared(self) -> dict[str, adjusted.Residuals]:
        """Null model of each group with people, for variants without missing calls."""
        return {kind: self.model(group, None) for kind, group in self.groups.items() if group.people.any()}

    def model(self, group: _Together, reports: adjusted.UnbiasedReports | None) -> adjusted.Residuals:
        """Fit the null model of a group.

        It uses the people whose genotype is called, or all people if ``reports`` is not given.
        """
        trait = self.trait_of(group)
        if trait is not None:
            called = np.ones((trait.size, 1)) if reports is None else reports.called
            return adjusted.trait_model(group.columns, called, called * trait[:, None])
        own = self.of_status(group) if reports is None else reports
        return adjusted.status_model(group.columns, own.called, own.cases.sum(axis=0))

    def of_status(self, group: _Together) -> adjusted.UnbiasedReports:
        """Compute unbiased reports of the status alone.

        The first variant represents all: its genotypes are treated as known, and all variants give the same status.
        """
        eigenvalues = self.pair_kernel.part(0).eigenvalues.copy()
        eigenvalues[1, 0], eigenvalues[1, 1] = 1.0, eigenvalues[0, 1]
        status = self.status[group.people]
        return adjusted.UnbiasedReports.of(
            np.zeros((status.size, 1), np.int8), status, EffectKernel(self.pair_kernel.sizes, eigenvalues)
        )

    def blocks(
        self, wanted: NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[IntArray, _Together, Codes, adjusted.Residuals | None]]:
        """Iterate over blocks of variants of one group and kind.

        Each comes with the null model that its variants share, or None if calls are missing.

        Returns None for a group without people, such as females for chromosome Y.
        """
        size = max(1, _CELLS // max(self.values.rows.size, 1))
        for chosen, everybody in self.cohort.blocks():
            codes = everybody[self.values.rows]
            at = np.arange(chosen.start, chosen.stop)
            for kind in sorted(map(str, set(self.kinds[chosen]))):
                group = self.groups[kind]
                if not group.people.any():
                    continue
                own = (self.kinds[at] == kind) & (True if wanted is None else wanted[at])
                theirs = codes[group.people][:, own]
                gone = np.full(theirs.shape[1], self.missing) | (theirs == MISSING).any(axis=0)
                for incomplete in (False, True):
                    which = np.flatnonzero(gone == incomplete)
                    for start in range(0, which.size, size):
                        some = which[start : start + size]
                        shared = None if incomplete else self.shared[kind]
                        yield at[own][some], group, theirs[:, some], shared

    def reports(self, at: IntArray, group: _Together, codes: Codes) -> adjusted.UnbiasedReports:
        """Compute unbiased reports of a block's variants."""
        return adjusted.UnbiasedReports.of(codes, self.status[group.people], self.pair_kernel.part(at))

    def trait_of(self, group: _Together) -> FloatArray | None:
        """Return the trait of a group's people if the regression is linear."""
        return self.values.trait[group.people] if self.is_linear and self.values.trait is not None else None

    def p_values(self, at: IntArray, group: _Together, codes: Codes, scores: adjusted.AdjustedScores) -> FloatArray:
        """Compute the p-values of a block's variants."""
        statistic = scores.statistic
        if self.is_linear:
            freedom = np.maximum(scores.n - group.columns.shape[1] - 1, 1.0)
            return np.asarray(2 * student.sf(np.sqrt(statistic), freedom))
        p = chi_squared_tails(statistic, 1)
        for k in np.flatnonzero(p < adjusted.KEPT):
            who = np.full(codes.shape[0], True) if self.missing else codes[:, k] != MISSING
            fitted = tuple(np.broadcast_to(x, scores.a.shape)[who, k] for x in (scores.a, scores.b, scores.leverage))
            missing = float(np.clip(1 - scores.n[k] / codes.shape[0], 0.0, 1.0)) if self.missing else 0.0
            single = None if group.single is None else group.single[who]
            kernel = self.pair_kernel.part(int(at[k]))
            exact = adjusted.tail_of_sum(
                float(scores.score[k]),
                float(scores.variance[k]),
                fitted,
                group.copies,
                kernel,
                single,
                missing,
            )
            p[k] = exact if np.isfinite(exact) else p[k]
        return p

    def check_comparable(self) -> None:
        """Check that covariates do not determine the status.

        Raises
        ------
        InvalidInput
            If they do, as a column does that repeats the status.
        """
        for kind, model in self.shared.items():
            if self.is_linear or not model.linear.any():
                continue
            one = self.of_status(self.groups[kind])
            cases, mean = one.cases.sum(axis=0), float(one.cases.sum() / max(one.called.sum(), 1.0))
            # (y − b)² = y (1 − 2b) + b² where y is 0 or 1, and the variance of y~ is that of y~² − y~
            left, whole = (float(np.sum(cases * (1 - 2 * b) + b**2)) for b in (model.b, np.full_like(model.b, mean)))
            noise = float(np.sum((cases**2 - cases) * (1 - 2 * model.b) ** 2))
            if left + 3 * np.sqrt(max(noise, 0.0)) < _DETERMINED * whole:
                raise InvalidInput(
                    f"the covariates ({self.values}) determine the status, so no comparison is left; leave out the "
                    "column that repeats the status"
                )

    def doubts(self, linear: NDArray[np.bool_]) -> list[str]:
        """List warnings about the people and the variants, one line each.

        ``linear`` marks variants with a linear model of the status.
        """
        names = self.values.names
        what = f"column{'' if len(names) == 1 else 's'} {listed(names)}"
        out = [f"left out: {counted(count, 'people')} {reason}" for reason, count in self.values.left_out.items()]
        if alone := max((group.alone for group in self.groups.values()), default=0):
            out.append(f"left out: {counted(alone, 'people')} alone in a stratum, or with a unique covariate value")
        if linear.any():
            out.append(
                f"OR is NA for {amount(int(linear.sum()), 'variant')} "
                f"({listed(self.cohort.variants.name[linear].tolist())}): "
                "P comes from a linear model of the status instead, and is as valid, because covariates separate "
                "cases from controls; use fewer covariates or larger strata for odds ratios"
            )
        return [*out, NOT_COVERED.format(what)]

    def effects(self, untested: NDArray[np.bool_]) -> Callable[[slice | IntArray], AdjustedEffects]:
        """Return a function that computes the effects of variants by number; those of ``untested`` ones are NaN."""

        def effects(which: slice | IntArray) -> AdjustedEffects:
            wanted, out = np.zeros(untested.size, dtype=np.bool_), np.full((7, untested.size), np.nan)
            wanted[which] = True
            for at, group, codes, shared in self.blocks(wanted & ~untested):
                reports, trait = self.reports(at, group, codes), self.trait_of(group)
                model = shared or self.model(group, reports)
                made = (
                    status_effects(reports, group.copies, model)
                    if trait is None
                    else trait_effects(reports, group.copies, model, trait)
                )
                out[:, at] = made.arrays
            return AdjustedEffects(self.is_linear, *out[:, which])

        return effects


def adjusted_scan(  # noqa: PLR0913 (people, the design's two, what is adjusted for, what is left out)
    cohort: Cohort,
    law: Law,
    layout: Layout,
    values: CovariateValues,
    *,
    maf: float = 0.0,
    hwe: float = 0.0,
    progress: Progress | None = None,
) -> Associations:
    """Test all variants, adjusted for public covariates.

    See :func:`optrr.genomics.scan`.

    ``maf`` and ``hwe`` leave variants out by the reports of the people who have all values.

    Takes time O(n V p²) for p covariates; memory one block of genotypes and some arrays of a quarter million doubles.

    Raises
    ------
    InvalidInput
        as :func:`optrr.genomics.scan`; where the people with all values are only cases, or only controls.
    """
    scan = AdjustedScan(cohort, cohort_kernel(cohort, law, layout), values, layout.missing)
    if not scan.is_linear and np.unique(scan.status).size < 2:
        raise InvalidInput(
            "all people with complete covariates are cases, or all are controls; give covariates of both"
        )
    scan.check_comparable()
    v, rows = len(cohort.variants), 4 if layout.missing else 3
    tables, status = np.zeros((v, rows, 2), dtype=np.int64), cohort.status[values.rows]
    tests, done = {name: np.full(v, np.nan) for name in ("statistic", "p", "n")}, 0
    linear, filters = np.zeros(v, dtype=np.bool_), _filtered(scan, maf, hwe)
    for at, group, codes, shared in scan.blocks(filters.kept):
        reports = scan.reports(at, group, codes)
        model = shared or scan.model(group, reports)
        scores = adjusted.adjusted_scores(reports, group.copies, model, values.only_strata, scan.trait_of(group))
        tests["statistic"][at], tests["n"][at] = scores.statistic, np.rint(scores.n)
        tests["p"][at] = scan.p_values(at, group, codes, scores)
        tables[at] = genotype_tables(codes, status[group.people], layout.missing)
        linear[at] = not model.is_trait and model.linear
        done += at.size
        if progress is not None:
            progress(done, v)
    counted = np.flatnonzero(tables.any(axis=(1, 2)))
    seen = Observed("a variant × status", tables[counted], scan.kernel.part(counted))
    return _table(scan, tests, filters, (*impossible_tables([seen]), *scan.doubts(linear)))


def _filtered(scan: AdjustedScan, maf: float, hwe: float) -> Filtered:
    """Select the variants to test; without thresholds no genotype is read."""
    if not (maf or hwe):
        return Filtered(np.ones(len(scan.cohort.variants), dtype=np.bool_), {}, ())
    c, rows = scan.cohort, scan.values.rows
    counted = Cohort(c.genotypes, c.rows[rows], c.status[rows], male=None if c.male is None else c.male[rows])
    tables = copy_tables(counted, scan.missing)
    return filtered(tables, scan.kernel, maf, hwe)


def _table(scan: AdjustedScan, tests: dict[str, FloatArray], filters: Filtered, doubts: Sequence[str]) -> Associations:
    """Build the result without the variants that have no call, and count those."""
    kept = np.flatnonzero(tests["n"] > 0)
    if not kept.size:
        raise InvalidInput(
            "no variant has a call of a person with complete covariates; check the covariates' missing values"
        )
    n, p = tests["n"][kept].astype(np.int64), tests["p"][kept]
    scores = Scores.of_one(tests["statistic"][kept], p, np.full(p.size, np.nan))
    effects = scan.effects(~np.isfinite(tests["p"]))
    nobody = ~np.array([scan.groups[str(kind)].people.any() for kind in scan.kinds])
    gone = {"all calls missing": tests["n"] == 0, _NOBODY: nobody & filters.kept}
    named = "linear" if scan.is_linear else "cmh" if scan.values.only_strata else "add-cov"
    return Associations(
        scan.cohort.variants.take(kept),
        named,
        n,
        scores,
        lambda which: effects(kept[which]),
        {
            **scan.cohort.genotypes.skipped,
            **{reason: int(which.sum()) for reason, which in gone.items() if which.any()},
            **filters.skipped,
        },
        (
            *about_inflation(scores.statistic, scores.df),
            *doubts,
            *filters.warnings,
            *_of_variants(scan, tests, int(np.isfinite(p).sum())),
        ),
        str(scan.values),
    )


def _of_variants(scan: AdjustedScan, tests: dict[str, FloatArray], tested: int) -> list[str]:
    """List warnings about monomorphic variants and missing calls."""
    people = np.array([scan.groups[str(kind)].people.sum() for kind in scan.kinds])
    some = tests["n"] > 0
    without = scan.cohort.variants.name[(tests["n"] == 0) & (people > 0)].tolist()
    incomplete = 0 if scan.missing else int(np.sum(some & (tests["n"] < people)))
    out = about_missing_calls(without, incomplete)
    if tested < some.sum():
        undefined = amount(int(some.sum()) - tested, "variant")
        out.append(f"p-values are NA for {undefined} without variation that is left for the test, given the covariates")
    return out
