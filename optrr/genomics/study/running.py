"""Run a study: a cell of a grid for each number of people, total and way to ask, one after the other.

All ways of one repeat ask the same people, so that their differences are theirs. A grid can be interrupted: what is done is
kept in a file and not done again. Every cell has random bits of its own, by the study's seed and the cell's name, so that a
grid that was taken up again gives the same numbers to the last digit. The file is JSON, one object a line: first what study it
is of, then each finished cell. A line that was cut short, because the run was killed while it wrote, is dropped.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from optrr.errors import InvalidInput, in_one_line
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import GENOTYPES, Codes, Texts, refuse_single_copies
from optrr.genomics.layout import Layout, genomic_domain, layout_of
from optrr.genomics.randomize import records_of
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
from optrr.genomics.tests import Progress, noncentralities, score_test
from optrr.mechanisms.kernel import unrandomized
from optrr.show import SOFTWARE
from optrr.tables.distributions import chi_squared_tails
from optrr_solvers.arrays import FloatArray

FORMAT = "optrr-study/1"

# A cell's numbers and texts, as JSON has them, NaN and infinite numbers included.
CellResult = dict[str, Any]


def run_study(
    cohort: Cohort,
    options: StudyOptions,
    progress: Progress | None = None,
    *,
    groups: Texts | None = None,
    state: Path | None = None,
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
    state
        a file that keeps finished cells, which are not worked out again (:func:`run_grid`).

    Raises
    ------
    InvalidInput
        for missing calls without a policy, a constant phenotype, a state of another study, and where no variant varies.
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
    names = [json.dumps([n, t, m]) for n in study.people for t in options.totals for m in options.methods]
    study.steps = len(names) * options.repeats
    study.done = len(finished(state, digests["study"]) & set(names)) * options.repeats
    refused: dict[tuple[float, str], str] = {}
    for name, kept in run_grid(names, study.cell, digests["study"], state):
        n, total, method = json.loads(name)
        if "unavailable" in kept:
            refused[total, method] = kept["unavailable"]
        else:
            out.outcomes.append(Outcome.of(n, total, method, kept))
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

    def cell(self, name: str) -> CellResult:
        """All repeats of one way."""
        n, total, method = json.loads(name)
        o, truth, way = self.options, self.truth(n), self.way(total, method)
        if isinstance(way, str):
            self.done += o.repeats
            return {"unavailable": way}
        repeats = []
        for k in range(o.repeats):
            levels = (o.test, o.alpha, self.structured)
            repeats.append(repeated(way, self.asked(n, k, truth), truth, levels, stream(o.seed, name, k)))
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, self.steps)
        measures = summarized([r.measures for r in repeats]) | pooled(repeats)
        measures["predicted_noncentrality_ratio"] = (truth.predicted_ratio(way, o.test), 0.0)
        measures["chi2_error_of_zero"] = (truth.error_of_zero, 0.0)
        return {
            "trust": way.trust,
            "epsilon": way.epsilon,
            "reported": way.reported,
            "labels": way.labels(),
            "measures": measures,
            "qq": qq_points(np.concatenate([r.null_p for r in repeats])),
            "naive_qq": qq_points(np.concatenate([r.naive_null_p for r in repeats])),
            "first": repeats[0].scores.p_value.tolist(),
        }

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


def run_grid(
    cells: Sequence[str], worked_out: Callable[[str], CellResult], study: str, state: Path | None
) -> Iterator[tuple[str, CellResult]]:
    """Every cell's result, in order; those that ``state`` holds, a file that is made where it is not there, are not worked out.

    ``study`` is a digest of everything that the results depend on. Raises InvalidInput where the file is another study's, or
    none, and where it cannot be written.
    """
    with _kept(state, study) as (done, out):
        for cell in cells:
            if cell not in done:
                # as it will be read, so that both ways give the same
                line = json.dumps({"cell": cell, "result": worked_out(cell)})
                done[cell] = json.loads(line)["result"]
                if out is not None:
                    out.write(line + "\n")
                    out.flush()
                    os.fsync(out.fileno())
            yield cell, done[cell]


def finished(state: Path | None, study: str) -> frozenset[str]:
    """Names of the cells that the file holds. Raises InvalidInput as :func:`run_grid`."""
    return frozenset() if state is None or not state.exists() else frozenset(_read(state, study)[0])


@contextmanager
def _kept(state: Path | None, study: str) -> Iterator[tuple[dict[str, CellResult], TextIO | None]]:
    if state is None:
        yield {}, None
        return
    done, whole = _read(state, study) if state.exists() else ({}, 0)
    try:
        with state.open("r+" if state.exists() else "w", encoding="utf-8") as out:
            out.truncate(whole)
            out.seek(whole)
            if not whole:
                out.write(json.dumps({"format": FORMAT, "study": study}) + "\n")
            yield done, out
    except OSError as error:
        reason = in_one_line(error.strerror or error)
        raise InvalidInput(f"cannot write {state}: {reason}; choose another path (--state)") from error


def _read(state: Path, study: str) -> tuple[dict[str, CellResult], int]:
    """The finished cells, and how many bytes hold whole lines."""
    other = f"{state} is not the state of this study, with its data and options; name another file (--state)"
    try:
        raw = state.read_bytes()
        whole = raw.rfind(b"\n") + 1
        lines = [json.loads(line) for line in raw[:whole].splitlines()]
    except (OSError, ValueError) as error:
        raise InvalidInput(other) from error
    if not raw or (not whole and raw.startswith(b'{"format"'[: len(raw)])):
        return {}, 0
    head, *cells = lines or [None]
    named = all(isinstance(line, dict) and isinstance(line.get("cell"), str) for line in cells)
    if not named or not isinstance(head, dict) or (head.get("format"), head.get("study")) != (FORMAT, study):
        raise InvalidInput(other)
    return {line["cell"]: dict(line["result"]) for line in cells}, whole
