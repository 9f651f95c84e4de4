"""The papers' statements and settings: complete, in their places, shown on their pages; and the papers' slips, checked."""

import ast
import csv
import functools
import re
import tomllib
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import paper_settings
import pytest
from rij import synthetic

from optrr.core.mechanisms.matrix import from_probabilities, randomized_response
from optrr.studies.laplace import laplace, reconstruction_probability

ROOT = Path(__file__).parents[1]
STATEMENTS = tomllib.loads((ROOT / "benchmarks" / "papers" / "statements.toml").read_text(encoding="utf-8"))

# What each paper numbers: read in the papers, and written down here.
NUMBERED = {
    "por": {"Definition": 1, "Algorithm": 3, "Figure": 5, "eq.": 11},
    "mdr": {"Definition": 2, "Protocol": 2, "Algorithm": 2, "Proposition": 1, "Corollary": 1, "Figure": 3, "eq.": 16},
    "sic": {"Table": 1, "Figure": 3, "eq.": 11},
    "rij": {"Definition": 1, "Algorithm": 3, "Theorem": 3, "Corollary": 1, "Figure": 12, "Table": 1},
    "rvl": {"Definition": 2, "Theorem": 4, "Lemma": 2, "Result": 5, "Figure": 6, "eq.": 26},
}
ROMAN = {"por": {"I"}, "mdr": {"I", "II"}}


def numbered(statement: str) -> set[tuple[str, int]]:
    """What a row is about: of "Result 2, eqs. (7)–(9)" the second result and three equations."""
    named = set()
    for kind, first, last in re.findall(
        r"(Definition|Algorithm|Protocol|Proposition|Corollary|Theorem|Lemma|Result|Figure|Table)s? (\d+)(?:–(\d+))?",
        statement,
    ):
        named |= {(kind, k) for k in range(int(first), int(last or first) + 1)}
    for first, last in re.findall(r"\((\d+)\)(?:–\((\d+)\))?", statement):
        named |= {("eq.", k) for k in range(int(first), int(last or first) + 1)}
    return named


@functools.cache
def names_in(path: str) -> set[str]:
    """Functions and classes of a module, and methods as ``Class.method``."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    defined = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    classes = [n for n in defined if isinstance(n, ast.ClassDef)]
    inside = {f"{c.name}.{n.name}" for c in classes for n in c.body if isinstance(n, ast.FunctionDef)}
    return {n.name for n in defined} | inside


def problems(row: dict[str, object]) -> list[str]:
    """What is wrong with a row."""
    wrong = [f"no {key!r}" for key in ("statement", "says", "got") if not row.get(key)]
    wrong += [] if bool(row.get("where")) != bool(row.get("reason")) else ["neither a place nor a reason, or both"]
    places = row.get("where", [])
    assert isinstance(places, list)
    for place in places:
        path, _, name = place.partition(":")
        if not (ROOT / path).exists():
            wrong.append(f"{path} is not there")
        elif name and name not in names_in(path):
            wrong.append(f"{path} has no {name}")
    return wrong


def test_every_row_has_a_place_or_a_reason() -> None:
    wrong = {f"{paper} {row['statement']}": problems(row) for paper, rows in STATEMENTS.items() for row in rows}
    assert len(wrong) > 100
    assert not {row: said for row, said in wrong.items() if said}


@pytest.mark.parametrize("paper", list(NUMBERED))
def test_whatever_a_paper_numbers_has_a_row(paper: str) -> None:
    there = set().union(*(numbered(row["statement"]) for row in STATEMENTS[paper]))
    wanted = {(kind, k) for kind, last in NUMBERED[paper].items() for k in range(1, last + 1)}
    assert wanted - there == set()
    tables = {t for row in STATEMENTS[paper] for t in re.findall(r"Table (I+)", row["statement"])}
    assert tables == ROMAN.get(paper, set())


@pytest.mark.parametrize("paper", list(NUMBERED))
def test_a_paper_s_page_shows_every_row(paper: str) -> None:
    page = (ROOT / "docs" / "papers" / f"{paper}.md").read_text(encoding="utf-8")
    shown = page.partition("## Every statement of the paper")[2].splitlines()
    assert len([line for line in shown if line.startswith("|")]) == len(STATEMENTS[paper]) + 2


# Read in the papers, and where their text leaves a range open in their authors' public code; written down here once more.
READ = {
    "POR_COUNTS": (3, 5, 7, 10),
    "POR_SETS": 200,
    "POR_CATEGORIES": 5,
    "POR_EPSILONS": {3: (1, 8), 5: (1, 8), 7: (1, 8), 10: (2, 8)},
    "POR_EPSILON": 3.0,
    "POR_SIZES": {3: (2, 15), 5: (2, 9), 7: (2, 6), 10: (2, 4)},
    "POR_PEOPLE": 2000,
    "POR_SNP_EPSILONS": (3, 5),
    "POR_TIMED_SIZES": (2, 5),
    "POR_TIMED_EPSILONS": (1, 10),
    "MDR_ALPHA": 0.05,
    "MDR_RETENTIONS": (0.1, 0.3, 0.5, 0.7),
    "MDR_FIG2_RETENTION": 0.7,
    "MDR_COMBINATIONS": (50, 100, 300),
    "MDR_DEPENDENCES": (0.1, 0.2, 0.3),
    "RIJ_BASE": {"d": 10, "epsilon": 1.0, "n": 1000, "v": 0.5},
    "RIJ_KEPT": 0.75,
    "RIJ_RETAINED": 0.5,
    "RIJ_YEARS": 20,
    "RVL_PEOPLE": 248,
    "RVL_NODES": 185,
    "RVL_EDGES": 684,
}


@pytest.mark.parametrize("name", list(READ))
def test_a_setting_is_the_paper_s(name: str) -> None:
    assert getattr(paper_settings, name) == READ[name]


@pytest.mark.parametrize("paper", list(NUMBERED))
def test_a_paper_s_page_shows_the_settings(paper: str) -> None:
    page = (ROOT / "docs" / "papers" / f"{paper}.md").read_text(encoding="utf-8")
    for what, said in paper_settings.listed(paper).items():
        assert f"| {what} | {said} |" in page


def test_por_s_kept_figures_are_of_its_settings() -> None:
    """With sizes in 2..9 for every k no three attributes had more than 27 categories, and ten had up to 75."""
    with (ROOT / "benchmarks" / "results" / "por_ratios.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for k, (low, high) in paper_settings.POR_SIZES.items():
        sums = [int(r["sum_sizes"]) for r in rows if r["setting"] == "ε_i = 3" and int(r["k"]) == k]
        assert len(sums) == paper_settings.POR_SETS
        assert k * low <= min(sums) and max(sums) <= k * high
        # the mean of 200 sums is within four standard errors of its expectation (false alarms: 1 in 15,000)
        spread = np.sqrt(k * ((high - low + 1) ** 2 - 1) / 12 / len(sums))
        assert abs(np.mean(sums) - k * (low + high) / 2) < 4 * spread


def test_error_propagation_is_bounded_from_above() -> None:
    """MDR §2.3 says that P_max/P_min bounds it from below. By the paper's own matrix: largest growth, and a smaller one."""
    matrix = randomized_response(4, 1.0).probabilities
    values = np.linalg.eigvalsh(matrix)
    bound = values[-1] / values[0]
    assert bound == pytest.approx((np.e + 3) / (np.e - 1))
    pi = np.array([0.7, 0.1, 0.1, 0.1])
    wrong = np.array([1.0, -1.0, 0.0, 0.0])
    growth = np.linalg.norm(np.linalg.solve(matrix, wrong)) / np.linalg.norm(wrong)
    growth *= np.linalg.norm(matrix @ pi) / np.linalg.norm(pi)
    assert 1 < growth < 0.8 * bound


def test_rij_s_definition_1_leaves_only_the_matrix_that_says_nothing() -> None:
    """Σ p_vv = 1 beside rows that sum to 1: p = 1/d; the paper's own example has 3/2."""
    for d in (2, 5):
        p = Fraction(1, d)
        assert p == (1 - p) / (d - 1)
    with pytest.raises(Exception, match="singular"):
        from_probabilities(np.full((2, 2), 0.5))
    assert sum([Fraction(3, 4)] * 2) == Fraction(3, 2)


def test_rij_s_example_takes_the_true_margins() -> None:
    """§3.3 in fractions: RR-Ind from the reports is even; what is printed is the product of the true margins, turned round."""
    true = [[Fraction(4, 10), Fraction(0)], [Fraction(2, 10), Fraction(4, 10)]]
    seen = [[Fraction(3, 10), Fraction(2, 10)], [Fraction(2, 10), Fraction(3, 10)]]

    def ind(table: list[list[Fraction]], keep: Fraction) -> list[list[Fraction]]:
        a, b = [sum(row) for row in table], [sum(column) for column in zip(*table, strict=True)]
        # the inverse of a binary attribute's matrix
        a, b = ([(x - (1 - keep)) / (2 * keep - 1) for x in margin] for margin in (a, b))
        return [[x * y for y in b] for x in a]

    def mae(table: list[list[Fraction]]) -> Fraction:
        return sum(abs(table[i][j] - true[i][j]) for i in (0, 1) for j in (0, 1)) / 4

    kept = Fraction(paper_settings.RIJ_KEPT)
    assert ind(seen, kept) == [[Fraction(1, 4)] * 2] * 2 and mae(ind(seen, kept)) == Fraction(15, 100)
    printed = [[Fraction(24, 100), Fraction(36, 100)], [Fraction(16, 100), Fraction(24, 100)]]
    assert ind(true, Fraction(1)) == [list(row) for row in zip(*printed, strict=True)]
    assert mae(ind(true, Fraction(1))) == Fraction(16, 100) and mae(printed) == Fraction(18, 100)


def test_rij_s_error_falls_faster_than_v_by_root_d() -> None:
    """A mean over d² cells of absolute differences of two distributions is at most 2/d², below V/√d from d = 3 on at V = .5."""

    def mae(d: int, v: float) -> float:
        table = synthetic(d, v)
        return float(np.abs(np.outer(table.sum(1), table.sum(0)) - table).mean())

    assert mae(10, 0.5) == pytest.approx(2 * mae(10, 0.25), rel=1e-6)
    assert 0.5 / np.sqrt(3) > 2 / 3**2
    slope = np.log(mae(20, 0.5) / mae(5, 0.5)) / np.log(4)
    assert -2 < slope < -1.7


def test_rvl_s_theorem_4_depends_on_the_prior() -> None:
    """Eq. 14's reader, three categories, ε = 0.1: false at a prior on the ends, true at the even one on average."""
    ours, theirs = randomized_response(3, 0.1), laplace(3, 0.1)

    def better(prior: list[float]) -> np.ndarray:
        return reconstruction_probability(ours, prior) - reconstruction_probability(theirs, prior)

    ends, even, middle = [0.49, 0.02, 0.49], [1 / 3] * 3, [0.1, 0.8, 0.1]
    assert better(ends) @ ends < 0 < better(even) @ even
    assert better(even)[0] < 0 < better(even)[1]
    assert better(middle) @ middle > 0


def test_epsilon_of_a_collection_needs_no_independent_people() -> None:
    """RVL §3.2, every data set and every outcome of three bits in fractions: e^ε = 3 by one record, 3³ by all three."""
    keep = {True: Fraction(3, 4), False: Fraction(1, 4)}

    def chance(data: tuple[int, ...], reports: tuple[int, ...]) -> Fraction:
        return np.prod([keep[a == b] for a, b in zip(data, reports, strict=True)])

    bits = list(product((0, 1), repeat=3))
    ratios: dict[int, Fraction] = {}
    for x, y, z in product(bits, repeat=3):
        apart = sum(a != b for a, b in zip(x, y, strict=True))
        ratios[apart] = max(ratios.get(apart, Fraction(0)), chance(x, z) / chance(y, z))
    assert ratios == {0: 1, 1: 3, 2: 9, 3: 27}
