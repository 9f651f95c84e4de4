"""Run a study: a cell of a grid for each number of people, total and way to ask, one after the other.

All ways of one repeat ask the same people, so that their differences are theirs. Every cell has random bits of its own, by the
study's seed and the cell's name.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from optrr.core.display import SOFTWARE
from optrr.core.errors import InvalidInput
from optrr.core.estimation.distributions import chi_squared_tails
from optrr.core.mechanisms.kernel import unrandomized
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import GENOTYPES, Codes, Texts, refuse_single_copies
from optrr.genomics.layout import Layout, genomic_domain, layout_of
from optrr.genomics.randomize import records_of
from optrr.genomics.score_tests import Progress, noncentralities, score_test
from optrr.genomics.study.curators import other_trust
from optrr.genomics.study.measures import (
    PeopleOfRepeat,
    Truth,
    most_associated,
    pooled,
    qq_points,
    repeated,
    summarized,
)
from optrr.genomics.study.people import StudyPeople
from optrr.genomics.study.result import Outcome, Study, StudyOptions
from optrr.genomics.study.ways import CURATED, NaiveUse, StudiedWay, VariantReports, local_way, record_tables
from optrr_solvers.arrays import FloatArray


def run_study(
    cohort: Cohort,
    options: StudyOptions,
    progress: Progress | None = None,
    *,
    groups: Texts | None = None,
) -> Study:
    """Draw people, randomize, test and compare, for every number of people, total and method.

    Time O(people · totals · methods · repeats · n V); memory a few times the records, n · V bytes.

    Parameters
    ----------
    cohort
        the panel; its statuses are not looked at where a trait is planted.
    progress
        told how many of how many repeats are done.
    groups
        of each person of the panel, such as an ancestry: drawn people are copied within a group, a planted trait's shifts are
        theirs, and λ is measured where only they tell of the status.

    Raises
    ------
    InvalidInput
        for missing calls without a policy, a constant phenotype, and where no variant varies.
    """
    if options.trait is None:
        cohort.check_varies()
    refuse_single_copies(
        cohort.variants.chromosome, "a study is of two copies: leave these variants out (plink --autosome)"
    )
    layout = layout_of(genomic_domain(list(cohort.variants.name), missing=options.missing_category))
    records = records_of(cohort, layout, options.missing)
    digests = _digests(cohort, records, groups, options)
    trait = None if options.trait is None else (options.trait, stream(options.seed, "trait"))
    panel = StudyPeople.of(records, cohort.variants, groups, options.stretch, trait)
    study = _Running(cohort, options, layout, panel, groups is not None, progress)
    left_out = {**cohort.genotypes.skipped, **{f"people {k}": v for k, v in cohort.left_out.items()}}
    truth = study.truth(len(records))
    if still := len(cohort.variants) - truth.usable.size:
        left_out["variants that do not vary"] = still
    cases = int(records[:, 0].sum()) if options.trait is None else round(options.trait.cases * cohort.n)
    out = Study(options, cohort.n, cases, cohort.variants, truth, digests, left_out=left_out)
    cells = [(n, t, m) for n in study.people for t in options.totals for m in options.methods]
    study.steps = len(cells) * options.repeats
    refused: dict[tuple[float, str], str] = {}
    for n, total, method in cells:
        outcome = study.cell(n, total, method)
        if isinstance(outcome, str):
            refused[total, method] = outcome
        else:
            out.outcomes.append(outcome)
    out.unavailable.extend((total, method, why) for (total, method), why in refused.items())
    out.ranked()
    return out


def _digests(cohort: Cohort, records: Codes, groups: Texts | None, options: StudyOptions) -> dict[str, str]:
    """Of genotypes, statuses, groups and options, and of all together with the version that runs."""

    def digest(*parts: bytes) -> str:
        return hashlib.sha256(b"\0".join(parts)).hexdigest()

    names = json.dumps([[str(x) for x in column] for column in (cohort.variants.chromosome, cohort.variants.name)])
    places = cohort.variants.position.astype(np.int64).tobytes()
    out = {
        "genotypes": digest(names.encode(), places, np.ascontiguousarray(records[:, 1:]).tobytes()),
        "status": digest(np.ascontiguousarray(records[:, 0]).tobytes()),
        "groups": "" if groups is None else digest(json.dumps([str(g) for g in groups]).encode()),
        "options": digest(json.dumps(asdict(options)).encode()),
    }
    return out | {"study": digest(json.dumps(out).encode(), SOFTWARE.encode())}


@dataclass(eq=False)
class _Running:
    """What cells share: designs, and truths by number of people, are made once."""

    cohort: Cohort
    options: StudyOptions
    layout: Layout
    panel: StudyPeople
    structured: bool
    progress: Callable[[int, int], None] | None
    done: int = 0
    steps: int = 0
    _truths: dict[int, Truth] = field(default_factory=dict)
    _ways: dict[tuple[float, str], StudiedWay | str] = field(default_factory=dict)

    @property
    def people(self) -> list[int]:
        """Numbers of people."""
        return list(self.options.people) or [len(self.panel.records)]

    def cell(self, n: int, total: float, method: str) -> Outcome | str:
        """All repeats of one way, or why there is none."""
        o, truth, way = self.options, self.truth(n), self.way(total, method)
        if isinstance(way, str):
            self.done += o.repeats
            return way
        name, repeats = json.dumps([n, total, method]), []
        for k in range(o.repeats):
            levels = (o.test, o.alpha, self.structured)
            repeats.append(repeated(way, self.asked(n, k, truth), truth, levels, stream(o.seed, name, k)))
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, self.steps)
        measures = summarized([r.measures for r in repeats]) | pooled(repeats)
        measures["predicted_noncentrality_ratio"] = (truth.predicted_ratio(way, o.test), 0.0)
        measures["chi2_error_of_zero"] = (truth.error_of_zero, 0.0)
        return Outcome(
            people=n,
            total=total,
            method=method,
            trust=way.trust,
            epsilon=way.epsilon,
            reported=way.reported,
            labels=way.labels(),
            measures=measures,
            qq=qq_points(np.concatenate([r.null_p for r in repeats])),
            naive_qq=qq_points(np.concatenate([r.naive_null_p for r in repeats])),
            first=repeats[0].scores.p_value,
        )

    def asked(self, n: int, repeat: int, truth: Truth) -> PeopleOfRepeat:
        """The people of a repeat, the same ones for every way and total."""
        if not self.options.draws_people:
            return PeopleOfRepeat(self.panel.records, self.panel.groups, truth.statistic)
        records, groups = self.panel.drawn(n, stream(self.options.seed, "people", n, repeat))
        return PeopleOfRepeat(records, groups, self._scan(record_tables(records, self.layout))[0])

    def _scan(self, tables: NDArray[np.number]) -> tuple[FloatArray, ...]:
        """χ², degrees of freedom and p-values of true tables, (V,) each."""
        scores = score_test(tables, unrandomized(tables.shape[1:]), self.options.test)
        return scores.statistic, scores.df.astype(np.float64), scores.p_value

    def truth(self, n: int) -> Truth:
        """The population as one of so many people."""
        if n not in self._truths:
            self._truths[n] = self._made_truth(n)
        return self._truths[n]

    def _made_truth(self, n: int) -> Truth:
        fixed, rows = not self.options.draws_people, GENOTYPES + self.layout.missing
        own = record_tables(self.panel.records, self.layout)
        statistic, df, p_value = self._scan(own)
        if fixed:
            tables = own.astype(np.float64)
        else:
            tables = n * self.panel.tables(rows, stream(self.options.seed, "population"))
            # a variant of which everybody has the same has no noncentrality
            statistic = n * np.nan_to_num(noncentralities(tables, unrandomized(tables.shape[1:]), self.options.test))
        varies = np.count_nonzero(tables[:, :GENOTYPES].sum(axis=2), axis=1) > 1
        usable = np.flatnonzero(np.isfinite(p_value) if fixed else varies)
        if not usable.size:
            raise InvalidInput("no variant varies among these people; there is nothing to test")
        by_scan = usable[p_value[usable] * usable.size <= 0.05]
        associated = by_scan if self.panel.risk is None else self.panel.risk.which
        # by p-value, as whoever reads a scan does, and as the ways are ranked: few degrees of freedom or few people set it and
        # the statistic apart
        ranked_by = p_value if fixed else chi_squared_tails(statistic, df)
        top = most_associated(ranked_by, statistic, usable)[: self.options.top]
        return Truth(n, fixed, tables, statistic, df.astype(np.int64), associated, top, usable)

    def way(self, total: float, method: str) -> StudiedWay | str:
        """The way of that name at that total, or why there is none; it knows the share of cases and the frequencies of A1."""
        if (total, method) not in self._ways:
            names, missing, test = self.cohort.variants.name, self.options.missing_category, self.options.test
            called = self.truth(self.people[0]).tables[:, :GENOTYPES]
            often = called.sum(axis=2) @ np.arange(GENOTYPES) / np.maximum(2 * called.sum(axis=(1, 2)), 1e-300)
            share = float(called[:, :, 1].sum() / called.sum())
            made: StudiedWay | str
            try:
                if method in CURATED:
                    made = other_trust(method, names, total, missing, test)
                elif method == "naive":
                    same = self.way(total, "optimum")
                    made = str(same)
                    if isinstance(same, VariantReports):
                        made = NaiveUse(method, same.epsilon, same.reported, same)
                else:
                    made = local_way(method, names, total, missing, share, often, test)
            except InvalidInput as error:
                made = str(error)
            self._ways[total, method] = made
        return self._ways[total, method]


def stream(seed: int, *of: object) -> np.random.Generator:
    """Random numbers of their own for whatever these texts and numbers name."""
    named = hashlib.sha256(repr(of).encode()).digest()
    return np.random.default_rng([seed, *np.frombuffer(named, dtype=np.uint32).tolist()])
