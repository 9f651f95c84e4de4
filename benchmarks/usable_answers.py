"""Of the questions that people ask of surveys, how many get an answer that they can use, on ten well-known data sets.

Run as ``python benchmarks/usable_answers.py [SURVEYS] [JOBS]`` (one survey of each setting and one process unless told; half an
hour of one core). Every data set (`make_data.py`) is asked as it is, by four ways: the optimum, the optimum that keeps pairs,
Kronecker's mechanism, each at ε_i = 0.5, 1, 2 and 4 for every attribute, and the most accurate questions about all pairs
(``allocate``) at the total ε of the optimum that keeps pairs. Requests are the same for all: shares among one and two
conditions, differences and ratios between groups, measures of association, tests, tests within strata, and regressions of the
last attribute on two and three others; every number that is printed counts as one.

An answer is usable if its interval is finite and narrower than half of its range, which for logarithms of odds and ratios is
taken to be 8, and for linear coefficients four standard deviations of the outcome; or if there is a p-value. "within reach" are
those whose asymptotic standard error (Cramér and Rao's, at the true table) is below 0.3 of the unit, and small enough that an
interval of 1.96 errors on either side is narrower than half of the range; the unit is 1, and one standard deviation of the
outcome for linear coefficients. This bound is not computed for questions, of which all requests count as within reach.

data/usable_before.csv holds what the version of 25 November 2026 said, before regressions and tests within strata
were by likelihood and before shares in sub-populations: the same script, the same seeds. Requests that it did not know count as
not answered. Writes results/usable_answers.csv and .md.
"""

from __future__ import annotations

import csv
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import isfinite, log
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from optrr import Attribute, Domain, OptrrError, allocate, design

RESULTS, DATA = (Path(__file__).parent / name for name in ("results", "data"))
EPSILONS = (0.5, 1.0, 2.0, 4.0)
WAYS = ("optimum", "pairs kept", "kronecker", "questions")
KINDS = ("share", "comparison", "association", "test", "within strata", "regression")
REACH, NORMAL, RANGE_OF_LOGS, DEVIATIONS = 0.3, 1.96, 8.0, 4.0


@dataclass(frozen=True, eq=False)
class Survey:
    """A data set: its domain, the outcome last, and the number of people in each cell."""

    name: str
    domain: Domain
    table: np.ndarray

    @property
    def n(self) -> int:
        """People."""
        return int(self.table.sum())

    def frame(self) -> pa.Table:
        """One row for each person."""
        codes = np.repeat(np.indices(self.table.shape).reshape(self.domain.m, -1), self.table.ravel(), axis=1)
        return pa.table({a.name: pa.array(a.texts).take(pa.array(c)) for a, c in zip(self.domain, codes, strict=True)})

    def shares(self, names: tuple[str, ...]) -> np.ndarray:
        """Of the cells of some attributes."""
        axes = [self.domain.names.index(name) for name in names]
        other = tuple(k for k in range(self.domain.m) if k not in axes)
        margin = self.table.sum(axis=other) / self.n
        return np.transpose(margin, np.argsort(np.argsort(axes)))


def surveys() -> list[Survey]:
    out = []
    for name, held in json.loads((DATA / "surveys.json").read_text()).items():
        domain = Domain(tuple(Attribute(a, tuple(texts)) for a, texts in held["attributes"].items()))
        sizes = tuple(map(len, held["attributes"].values()))
        out.append(Survey(name, domain, np.array(held["people"]).reshape(sizes)))
    return out


@dataclass(frozen=True, eq=False)
class Request:
    """What is asked: of which attributes, how, and the numbers of the true shares that it estimates; tests estimate none.

    ``ask`` gives an interval for each number, or a p-value; ``truth`` the numbers of a table of the names, and ``width`` half
    of the range is. ``formula`` is that of regressions, whose bound is computed in another way.
    """

    kind: str
    name: str
    names: tuple[str, ...]
    ask: Callable[[Any], list[tuple[float, float]] | float]
    truth: Callable[[np.ndarray], np.ndarray] | None = None
    width: float = 0.5
    unit: float = 1.0
    formula: str = ""


def ends(rows: Any) -> list[tuple[float, float]]:
    return [(row.lower, row.upper) for row in rows]


def log_ends(rows: Any) -> list[tuple[float, float]]:
    return [(log(r.lower) if r.lower > 0 else -np.inf, log(r.upper) if r.upper > 0 else -np.inf) for r in rows]


def requests(survey: Survey) -> Iterator[Request]:
    """The same for every data set: y is the last attribute, x the first, z the one before y."""
    domain = survey.domain
    x, z, y = domain.names[0], domain.names[-2], domain.names[-1]
    outcome, group = str(domain[y].texts[-1]), str(domain[x].texts[0])
    other = str(domain[z].texts[0])
    yield Request(
        "share",
        f"{y} among one {x}",
        (x, y),
        lambda r: ends(r.share(y, outcome, among={x: group}).rows),
        lambda t: np.array([t[0, -1] / t[0].sum()]),
    )
    if x != z:
        yield Request(
            "share",
            f"{y} among one {x} and {z}",
            (x, z, y),
            lambda r: ends(r.share(y, outcome, among={x: group, z: other}).rows),
            lambda t: np.array([t[0, 0, -1] / t[0, 0].sum()]),
        )
    for g in dict.fromkeys((x, z)):
        yield from comparisons(g, y)
        yield Request("test", f"{g}, {y}", (g, y), lambda r, g=g: r.test(g, y).p_value)
    if x != z:
        yield Request("within strata", f"{x}, {y} in {z}", (x, y, z), lambda r: r.test(x, y, given=z).p_value)
        yield Request("within strata", f"{z}, {y} in {x}", (z, y, x), lambda r: r.test(z, y, given=x).p_value)
    for count in (2, 3):
        predictors = domain.names[:-1][-count:]
        if len(predictors) == count:
            yield regression(survey, predictors, y)


def comparisons(g: str, y: str) -> Iterator[Request]:
    def shares(t: np.ndarray) -> np.ndarray:
        return t / t.sum(axis=1, keepdims=True)

    yield Request(
        "comparison",
        f"row-shares {g}, {y}",
        (g, y),
        lambda r: ends(r.measure("row-shares", g, y).rows),
        lambda t: shares(t).ravel(),
    )
    yield Request(
        "comparison",
        f"risk-difference {g}, {y}",
        (g, y),
        lambda r: ends(r.measure("risk-difference", g, y).rows),
        # of two outcomes the last tells all
        lambda t: (shares(t)[1:] - shares(t)[:1]).T[-1 if t.shape[1] == 2 else 0 :].ravel(),
        width=1.0,
    )
    yield Request(
        "comparison",
        f"odds-ratio {g}, {y}",
        (g, y),
        lambda r: log_ends(r.measure("odds-ratio", g, y).rows),
        lambda t: np.log(t[1:, 1:] * t[0, 0] / (t[1:, :1] * t[:1, 1:])).T.ravel(),
        width=RANGE_OF_LOGS / 2,
    )

    def v(t: np.ndarray) -> np.ndarray:
        apart = np.outer(t.sum(axis=1), t.sum(axis=0))
        return np.sqrt([np.sum((t - apart) ** 2 / apart) / (min(t.shape) - 1)])

    def information(t: np.ndarray) -> np.ndarray:
        apart = np.outer(t.sum(axis=1), t.sum(axis=0))
        return np.array([np.sum(t * np.log2(np.where(t > 0, t, apart) / apart))])

    yield Request("association", f"V {g}, {y}", (g, y), lambda r: ends([r.measure("cramers-v", g, y)]), v)
    yield Request(
        "association",
        f"information {g}, {y}",
        (g, y),
        lambda r: ends([r.measure("mutual-information", g, y)]),
        information,
    )


def regression(survey: Survey, predictors: tuple[str, ...], y: str) -> Request:
    formula = f"{y} ~ {' + '.join(f'C({name})' for name in predictors)}"
    numbers = survey.domain[y].size > 2 and all(text.isdigit() for text in map(str, survey.domain[y].texts))
    levels = survey.shares((y,))
    spread = float(np.sqrt(levels @ np.arange(levels.size) ** 2 - (levels @ np.arange(levels.size)) ** 2))
    how = {"family": "linear", "scores": {y: list(range(levels.size))}} if numbers else {"family": "logistic"}
    return Request(
        "regression",
        formula,
        (*predictors, y),
        lambda r: ends(r.regress(formula, **how).coefficients),
        width=DEVIATIONS * spread / 2 if numbers else RANGE_OF_LOGS / 2,
        unit=spread if numbers else 1.0,
        formula=formula,
    )


def coefficients(survey: Survey, request: Request) -> int:
    """How many a regression has: thresholds and constants count, too."""
    sizes = [survey.domain[name].size for name in request.names]
    effects, outcomes = sum(r - 1 for r in sizes[:-1]), sizes[-1]
    numbers = request.unit != 1.0
    return 1 + effects if numbers or outcomes == 2 else (1 + effects) * (outcomes - 1)


def way_of(survey: Survey, name: str, epsilon: float) -> Any:
    each = [epsilon] * survey.domain.m
    if name == "questions":
        total = design(survey.domain, each, preserve="pairs").epsilon
        return allocate(survey.domain, total, learn="pairs").asking
    how: dict[str, Any] = {"kronecker": {"method": "kronecker"}, "pairs kept": {"preserve": "pairs"}}.get(name, {})
    return design(survey.domain, each, **how)


def usable(answer: list[tuple[float, float]] | float, width: float) -> np.ndarray:
    """Which numbers, or the p-value, are there and say something."""
    if isinstance(answer, float):
        return np.array([isfinite(answer)])
    return np.array([isfinite(low) and isfinite(high) and high - low < width for low, high in answer])


def errors(survey: Survey, request: Request, way: Any) -> np.ndarray:
    """The least asymptotic standard errors of what is asked, in its units; infinite where the way hides it."""
    kernel = way.mechanism.kernel(request.names)
    if request.formula:
        return of_coefficients(survey, request, kernel) / request.unit
    assert request.truth is not None
    table = survey.shares(request.names)
    p = np.stack([kernel.expected(one.reshape(table.shape)).ravel() for one in np.eye(table.size)])
    step = 1e-7
    with np.errstate(all="ignore"):  # of cells that nobody is in, ratios have no errors
        up, down = (
            np.stack([request.truth(table + sign * step * e.reshape(table.shape)) for e in np.eye(table.size)])
            for sign in (1, -1)
        )
        gradient = (up - down) / (2 * step)
    gradient -= table.ravel() @ gradient
    out = np.full(gradient.shape[1], np.inf)
    sound = np.isfinite(gradient).all(axis=0)
    inverse = np.linalg.pinv((p / (table.ravel() @ p)) @ p.T, hermitian=True)
    reported = ((p / (table.ravel() @ p)).T @ inverse) @ gradient[:, sound]
    told = np.abs(p @ reported - gradient[:, sound]).max(axis=0) < 1e-6 * (1 + np.abs(gradient[:, sound]).max(axis=0))
    variance = (table.ravel() @ p) @ reported**2
    out[sound] = np.where(told, np.sqrt(variance / survey.n), np.inf)
    return out


def of_coefficients(survey: Survey, request: Request, kernel: Any) -> np.ndarray:
    from regression_coverage import Setting, attainable, fit_of, with_numbers

    from optrr.models.regression.solving import estimated

    numbers = request.unit != 1.0
    chosen = [survey.domain[name] for name in request.names]
    if numbers:
        chosen[-1] = Attribute(chosen[-1].name, tuple(range(chosen[-1].size)))
    domain, each = Domain(tuple(chosen)), (30.0,) * len(chosen)
    family = "linear" if numbers else "logistic" if chosen[-1].size == 2 else "multinomial"
    population = survey.shares(request.names)
    clear = Setting("", "kronecker", request.formula, family, domain, domain.names, each, population, survey.n)
    reports, chances = clear.reports()
    fit = fit_of(clear, reports)
    truth = estimated(with_numbers(fit, reports, chances[None] * 1e12))
    try:
        if truth.converged[0]:
            return attainable(clear, fit, truth.theta[0], kernel)
    except np.linalg.LinAlgError:
        pass
    return np.full(truth.theta.shape[1], np.inf)


def asked(setting: tuple[int, str, float], runs: int, bound: bool) -> list[dict[str, object]]:
    """A row for each request: how many numbers it asks for, how many are within reach, and how many answers of either kind."""
    place, name, epsilon = setting
    survey = surveys()[place]
    way = way_of(survey, name, epsilon)
    frames = [way.randomize(survey.frame(), random_state=1000 * place + k) for k in range(runs)]
    out: list[dict[str, object]] = []
    for request in requests(survey):
        tests = request.kind in ("test", "within strata")
        count = 1 if tests else coefficients(survey, request)
        if request.truth is not None:
            with np.errstate(all="ignore"):
                count = request.truth(survey.shares(request.names)).size
        reach = np.ones(count, dtype=bool)
        if bound and name != "questions" and not tests:
            # whatever is nearer than half of its range by nobody's interval is out of reach
            reach = errors(survey, request, way) < min(REACH, request.width / request.unit / (2 * NORMAL))
        answered = inside = 0
        for frame in frames:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    answer = request.ask(way.reports(frame))
            except (OptrrError, AttributeError, NotImplementedError):
                continue
            each = usable(answer, request.width)
            answered += int(each.sum())
            # a before that knew other rows has them counted by their number
            inside += int(each[reach].sum()) if each.size == reach.size else min(int(each.sum()), int(reach.sum()))
        out.append(
            {"survey": survey.name, "n": survey.n, "way": name, "epsilon": epsilon, "kind": request.kind}
            | {"request": request.name, "numbers": count * runs, "usable": answered}
            | {"within reach": int(reach.sum()) * runs, "usable within reach": inside}
        )
    return out


def settings() -> list[tuple[int, str, float]]:
    return [(place, way, epsilon) for place in range(len(surveys())) for way in WAYS for epsilon in EPSILONS]


def main(runs: int, jobs: int, bound: bool = True) -> None:
    chosen = settings()
    rows: list[dict[str, object]] = []
    with ProcessPoolExecutor(jobs) as pool:
        for new in pool.map(asked, chosen, [runs] * len(chosen), [bound] * len(chosen)):
            rows += new
            print(*(new[0][key] for key in ("survey", "way", "epsilon")), *(row["usable"] for row in new), flush=True)
    target = RESULTS / "usable_answers.csv" if bound else DATA / "usable_before.csv"
    with target.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    if bound:
        before = list(csv.DictReader((DATA / "usable_before.csv").open(newline="")))
        (RESULTS / "usable_answers.md").write_text(page(rows, before, runs))
        print((RESULTS / "usable_answers.md").read_text())


def page(rows: list[dict[str, object]], before: list[dict[str, str]], runs: int) -> str:
    """By kind of request, way, ε and data set."""
    # each request's reach is today's: what was printed before is held against the same
    earlier = {key(row): row for row in before}
    for row in rows:
        was = earlier.get(key(row))
        shown = int(was["usable"]) / max(int(was["numbers"]), 1) if was else 0.0
        row["before"] = round(shown * int(str(row["numbers"])))
        row["before within reach"] = round(shown * int(str(row["within reach"])))
    reached, told = total(rows, "within reach"), total(rows, "usable within reach")
    lines = [
        "# Answers that people can use, on ten well-known data sets",
        f"Made by `benchmarks/usable_answers.py`: {runs} survey of each data set, way and ε; {total(rows, 'numbers')} numbers "
        f"are asked for, of which {reached} are within reach: {told} of them ({told / reached:.1%}) have a usable "
        f"answer, where {total(rows, 'before within reach')} ({total(rows, 'before within reach') / reached:.1%}) had before.",
        *(
            f"| {head} | numbers | usable | before | within reach | usable of these | before |\n|---|---|---|---|---|---|---|\n"
            + "\n".join(line(rows, head, value) for value in dict.fromkeys(row[head] for row in rows))
            for head in ("kind", "way", "epsilon", "survey")
        ),
    ]
    return "\n\n".join(lines) + "\n"


def key(row: Any) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("survey", "way", "epsilon", "request"))


def total(rows: list[dict[str, object]], name: str) -> int:
    return sum(int(str(row[name])) for row in rows)


def line(rows: list[dict[str, object]], head: str, value: object) -> str:
    of = [row for row in rows if row[head] == value]
    numbers, reach = total(of, "numbers"), total(of, "within reach")
    shares = [total(of, name) / numbers for name in ("usable", "before")]
    within = [total(of, name) / reach if reach else 1.0 for name in ("usable within reach", "before within reach")]
    cells = [
        str(value),
        str(numbers),
        *(f"{each:.1%}" for each in shares),
        str(reach),
        *(f"{each:.1%}" for each in within),
    ]
    return f"| {' | '.join(cells)} |"


def probe() -> object:
    """One setting of the smallest data set."""
    return [asked((4, way, 2.0), 1, bound=True) for way in WAYS]


if __name__ == "__main__":
    given = [each for each in sys.argv[1:] if each != "--before"]
    main(
        *(int(given[k]) if len(given) > k else default for k, default in ((0, 1), (1, 1))),
        bound="--before" not in sys.argv,
    )
