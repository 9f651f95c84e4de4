"""Right clients are consistent with their labels, broken ones are not, and bounds hold whatever a client does."""

import os
from collections.abc import Callable
from itertools import combinations, product
from math import comb, factorial, log, prod

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats
from vectors import VECTORS, load_script

import optrr
from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.devices.epsilon_bounds import total_bound
from optrr.devices.export import deployment_of
from optrr.devices.label import label_of
from optrr.devices.planting import PlantedRecords, planned
from optrr.devices.record_audit import Label
from optrr.devices.result import LEAST, Audit, Worst, at_least, at_most, lowest_share, table_bound, two_sided
from optrr_solvers import Problem, solve

LAWS = load_script(VECTORS / "laws.py")


def mechanism_of(sizes, epsilons, method="auto") -> Mechanism:
    """The optimum for attributes of these sizes."""
    domain = Domain.of({f"a{i}": int(r) for i, r in enumerate(sizes)})
    return Mechanism(domain, solve(Problem(sizes, epsilons), method).law)


class PlainClient:
    """A right client, written plainly: the change set from a table, each replacement on its own."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism, self.sizes, self.m = mechanism, mechanism.domain.sizes, mechanism.domain.m
        self.probabilities = self.table()

    def table(self):
        """Probability of each change set, the first attribute in the highest bit."""
        return self.mechanism.law.marginal(range(self.m)).ravel()

    def generator(self):
        """Fresh random bits of the operating system for each process."""
        return np.random.default_rng(int.from_bytes(os.urandom(16), "big"))

    def changes(self, n, rng):
        """Change sets, shape (n, m)."""
        ends = np.cumsum(self.probabilities)
        patterns = np.minimum(np.searchsorted(ends, rng.random(n) * ends[-1], side="right"), ends.size - 1)
        return (patterns[:, None] >> np.arange(self.m - 1, -1, -1)) & 1

    def moves(self, n, rng):
        """By how much a changed code moves on, 1..r−1, shape (n, m)."""
        return np.column_stack([rng.integers(1, r, n) for r in self.sizes])

    def drawn(self, records, rng):
        """Randomized codes."""
        return (records + self.changes(len(records), rng) * self.moves(len(records), rng)) % self.sizes

    def __call__(self, people, records):
        del people
        return self.drawn(records, self.generator())


class ForgottenUniform(PlainClient):
    """The law is a uniform answer mixed with something else; only the something else is drawn."""

    def table(self):
        outputs = np.ones(1)
        for r in self.sizes:
            outputs = np.multiply.outer(outputs, [1.0, r - 1.0]).ravel()
        whole = super().table()
        return np.maximum(whole - outputs * (whole / outputs).min(), 0.0)


class AnotherDesign(PlainClient):
    """The mechanism of another file, whose first attribute is a tenth more accurate."""

    def table(self):
        epsilons = self.mechanism.law.attribute_epsilons() * np.where(np.arange(self.m) == 0, 1.1, 1.0)
        return solve(Problem(self.sizes, epsilons), "auto").law.marginal(range(self.m)).ravel()


class WrongOrder(PlainClient):
    """Two attributes of one size stand in each other's column."""

    def __call__(self, people, records):
        out = super().__call__(people, records)
        out[:, [2, 4]] = out[:, [4, 2]]
        return out


class BiasedModulo(PlainClient):
    """Four bits modulo r − 1 choose the other category."""

    def moves(self, n, rng):
        return 1 + rng.integers(0, 16, (n, self.m)) % (self.sizes - 1)


class ClippedCategory(PlainClient):
    """The last category of the largest attribute is never answered."""

    def __call__(self, people, records):
        out = super().__call__(people, records)
        i = int(np.argmax(self.sizes))
        out[:, i] = np.minimum(out[:, i], self.sizes[i] - 2)
        return out


class OffByOne(PlainClient):
    """A changed code moves on by 0..r−2 in place of 1..r−1."""

    def moves(self, n, rng):
        return super().moves(n, rng) - 1


class ReusedKey(PlainClient):
    """Every thousand records the stream starts again."""

    def __call__(self, people, records):
        seed = self.generator().integers(1 << 62)
        parts = [records[at : at + 1000] for at in range(0, len(records), 1000)]
        return np.concatenate([self.drawn(part, np.random.default_rng(seed)) for part in parts])


class SeededSource(PlainClient):
    """Every process starts from one seed."""

    def generator(self):
        return np.random.default_rng(20)


class CorrelatedRecords(PlainClient):
    """One record in ten has the changes of the record before."""

    def changes(self, n, rng):
        out = super().changes(n, rng)
        again = np.flatnonzero(rng.random(n) < 0.1)[1:]
        out[again] = out[again - 1]
        return out


class SeededByPerson(PlainClient):
    """Noise is made from a part of each person's number."""

    def seed(self, person, record):
        return [7, person]

    def __call__(self, people, records):
        each = zip(people.tolist(), records, strict=True)
        return np.array([self.drawn(r[None], np.random.default_rng(self.seed(p, r)))[0] for p, r in each])


class SeededByRecord(SeededByPerson):
    """Everybody with the same record gets the same answer."""

    def seed(self, person, record):
        return [5, *record.tolist()]


# Broken clients: queries within which each is caught, several times what it took in a few runs, and a check that catches it.
BROKEN: dict[type[PlainClient], tuple[int, str]] = {
    ForgottenUniform: (1_000, "total epsilon"),
    WrongOrder: (1_000, "joint flips"),
    AnotherDesign: (40_000, "joint flips"),
    BiasedModulo: (20_000, "replacements"),
    ClippedCategory: (4_000, "replacements"),
    OffByOne: (1_000, "replacements"),
    ReusedKey: (12_000, "repeats and lags"),
    SeededSource: (1_000, "repeats and lags"),
    CorrelatedRecords: (8_000, "repeats and lags"),
    SeededByPerson: (1_000, "repeats and lags"),
    SeededByRecord: (1_000, "repeats and lags"),
}


CHECKS = ("total epsilon", "joint flips", "replacements", "repeats and lags")


@pytest.fixture(scope="module")
def planted() -> Mechanism:
    return mechanism_of([2, 3, 5, 7, 5], [1.0, 0.6, 1.2, 0.8, 0.7])


def violated(result: Audit) -> dict[str, str]:
    return {f.check: f.says for f in result.findings if f.violates}


@pytest.mark.parametrize("client", BROKEN)
def test_a_broken_client_is_caught(client: type[PlainClient], planted: Mechanism) -> None:
    queries, check = BROKEN[client]
    result = optrr.audit(planted, client(planted), n=queries)
    assert check in violated(result)
    assert not result.holds and "VIOLATES" in result.headline()
    if client is SeededByPerson:
        said = violated(result)[check]
        assert "who were asked about another record" in said and "the noise depends on the person" in said


def test_a_right_client_is_consistent_and_its_bound_is_near(planted: Mechanism) -> None:
    """False alarms: 1e-6 by the level."""
    result = optrr.audit(planted, PlainClient(planted), n=20_000)
    assert result.holds, result.headline()
    # the bound's standard deviation is 0.05, and it is 0.15 below the label on average
    assert planted.epsilon - 0.5 < result.epsilon_bound < planted.epsilon
    assert tuple(f.check for f in result.findings) == CHECKS
    assert result.findings[0].bound == result.epsilon_bound and result.findings[0].stated == planted.epsilon
    assert len(result.to_arrow()) == 4
    assert "got a fresh answer: each is a release" in result.findings[-1].says
    assert (1 - result.rarest) ** result.n == pytest.approx(0.05)
    assert result.summary()["unseen"] == list(result.unseen) and result.summary()["rarest"] == result.rarest


def test_a_client_that_remembers_is_consistent(planted: Mechanism) -> None:
    """A memory gives the same answer for another record: never the same noise in another answer."""

    def answer(people, records):
        fresh, known = PlainClient(planted)(people, records), {}
        return np.array([fresh[known.setdefault(p, row)] for row, p in enumerate(people.tolist())])

    result = optrr.audit(planted, answer, n=2_000)
    assert result.holds, result.headline()
    assert "got the same answer, from memory" in result.findings[-1].says


def of_kind(name: str) -> Mechanism:
    law = LAWS.law_of(name)
    return Mechanism(Domain.of({f"a{i}": int(r) for i, r in enumerate(law.sizes)}), law)


@pytest.mark.parametrize("name", [n for n in LAWS.LAWS if n not in ("many", "optimum-11", "optimum-12")])
def test_an_automaton_s_sums_are_the_law_s_marginals(name: str) -> None:
    designed = of_kind(name)
    deployed, m = label_of(deployment_of(designed)), designed.domain.m
    sets = [*combinations(range(m), min(m, 2)), tuple(np.random.default_rng(1).permutation(m)[:5].tolist())]
    for chosen in sets[:12]:
        np.testing.assert_allclose(deployed.changes(chosen), designed.law.marginal(chosen), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(deployed.flips, designed.law.one_way()[:, 1], rtol=1e-9)
    # a file's numbers belong to what is drawn, which may be less than the law's label, and are rounded up
    assert deployed.epsilon <= label_of(designed).epsilon + 1e-8


@pytest.mark.parametrize("name", ["small", "joint", "optimum-3"])
def test_the_chance_of_the_same_noise_is_that_of_two_rows_of_the_matrix(name: str) -> None:
    designed = of_kind(name)
    records = np.zeros((1, designed.domain.m), dtype=np.int64)
    noise, changes = label_of(designed).answers(records, records).fingerprints()
    assert noise.chance == pytest.approx((designed.matrix()[0] ** 2).sum(), rel=1e-10)
    assert changes.chance == pytest.approx((designed.law.marginal(range(designed.domain.m)) ** 2).sum(), rel=1e-10)


def random_right_mechanism(rng: np.random.Generator, number: int) -> Mechanism:
    """A random design of any kind, m in 1..6, ε_i in 0.05..3."""
    if number % 4 == 0:
        law = LAWS.LAWS[list(LAWS.LAWS)[number // 4 % 13]](rng)
        return Mechanism(Domain.of({f"a{i}": int(r) for i, r in enumerate(law.sizes)}), law)
    m = int(rng.integers(1, 7))
    epsilons = np.exp(rng.uniform(np.log(0.05), np.log(3), m))
    return mechanism_of(rng.integers(2, 9, m), epsilons, ["auto", "kronecker", "lp"][number % 3])


@pytest.mark.slow
def test_false_alarms_are_within_the_level() -> None:
    """At a level of 0.2 an audit, 0.05 a check; each assertion fails with probability below 1e-6 if the level is kept."""
    rng, audits, alarms, level = np.random.default_rng(5), 100, dict.fromkeys(("any", *CHECKS), 0), 0.2
    for number in range(audits):
        mechanism = random_right_mechanism(rng, number)
        found = violated(optrr.audit(mechanism, n=int(rng.integers(200, 1500)), alpha=level))
        for check in (*found, *(["any"] if found else [])):
            alarms[check] += 1
    for check, count in alarms.items():
        assert stats.binom.sf(count - 1, audits, level if check == "any" else level / 4) > 1e-6, check


def bound_of(label: Label, channel: Callable, queries: int, rng: np.random.Generator) -> float:
    """The bound of ε for records that ``channel`` randomizes, wrong with probability 0.1: its share of a level of 0.4."""
    layout = PlantedRecords.of(queries, label.domain.m)
    records = np.concatenate([run.records[: layout.once] for run in planned(layout, label.sizes, rng)])
    answers = label.answers(records, channel(records))
    bound = total_bound(answers.events(layout.parts), label.epsilon, 0.4).bound
    assert bound is not None
    return bound


@pytest.mark.slow
def test_the_bound_of_epsilon_holds_for_every_channel() -> None:
    """The true ε of any distortion matrix at all by brute force; the test fails at 1e-6 if the bound's level is kept."""
    rng, sizes, channels, wrong, near = np.random.default_rng(11), [2, 3, 2], 40, 0, 0
    label = label_of(mechanism_of(sizes, [1.0, 1.0, 0.5]))
    digits = np.array(np.unravel_index(np.arange(12), sizes)).T
    for _ in range(channels):
        matrix = rng.dirichlet(np.full(12, rng.uniform(0.3, 3)), 12) + rng.uniform(0.2, 3) / 12
        matrix += rng.uniform(0, 3) * np.eye(12)
        matrix /= matrix.sum(axis=1, keepdims=True)
        truth = float(np.log(matrix.max(axis=0) / matrix.min(axis=0)).max())

        ends = np.cumsum(matrix, axis=1)

        def channel(records, ends=ends):
            rows = ends[np.ravel_multi_index(tuple(records.T.astype(int)), sizes)]
            return digits[np.minimum((rng.random(len(rows))[:, None] > rows).sum(axis=1), 11)]

        bound = bound_of(label, channel, 4_000, rng)
        wrong += bound > truth
        near += bound > 0.5 * truth
    assert stats.binom.sf(wrong - 1, channels, 0.1) > 1e-6
    assert near > channels / 2


def test_uniform_answers_have_no_bound_above_0() -> None:
    """What was chosen because it stands out must be bounded with other records; fails at 1e-6 if the level is kept."""
    rng, sizes, audits = np.random.default_rng(12), [2, 3, 2], 40
    label = label_of(mechanism_of(sizes, [1.0, 1.0, 0.5]))
    above = sum(bound_of(label, lambda x: rng.integers(0, sizes, x.shape), 400, rng) > 0 for _ in range(audits))
    assert stats.binom.sf(above - 1, audits, 0.1) > 1e-6


def test_rare_events_do_not_crowd_out_common_ones() -> None:
    """The lowest of 200 bounds was 1.7; chosen among all events together, half of them were 0."""
    mechanism = mechanism_of([2, 4, 3, 2], [0.44, 0.79, 1.58, 1.34])
    audits = [optrr.audit(mechanism, n=2_000, alpha=0.01) for _ in range(5)]
    assert min(a.epsilon_bound for a in audits) > mechanism.epsilon / 3


def test_an_answer_outside_the_categories_is_a_violation_by_itself(planted: Mechanism) -> None:
    def answer(people, records):
        out = PlainClient(planted)(people, records)
        out[0, 0] = 2
        return out

    result = optrr.audit(planted, answer, n=400)
    assert not result.holds
    assert [f.check for f in result.findings] == ["categories"]


def test_a_single_record_that_is_not_protected_is_caught() -> None:
    """One combination of categories is answered as it is; averaged over records it is one in thirty."""
    mechanism = mechanism_of([2, 3, 5], [1.0, 0.6, 1.2])

    def answer(people, records):
        out = PlainClient(mechanism)(people, records)
        bare = (records == [1, 2, 4]).all(axis=1)
        out[bare] = records[bare]
        return out

    said = violated(optrr.audit(mechanism, answer, n=20_000))["total epsilon"]
    assert "answered a0 = '1', a1 = '2', a2 = '4' for a0 = '1', a1 = '2', a2 = '4'" in said


def test_what_a_function_does_wrong_is_said_in_one_line(planted: Mechanism) -> None:
    def wrong_shape(people, records):
        return records[:, :1] if people.size > 1 else records

    def fails(people, records):
        if people.size > 1:
            raise KeyError("no key")
        return records

    with pytest.raises(InvalidInput, match="return integers of shape"):
        optrr.audit(planted, wrong_shape, n=400)
    with pytest.raises(InvalidInput, match="the client failed: KeyError"):
        optrr.audit(planted, fails, n=400)
    with pytest.raises(InvalidInput, match="at least 200"):
        optrr.audit(planted, n=10)
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        optrr.audit(planted, alpha=0.0)
    with pytest.raises(InvalidInput, match="a list is not a label"):
        label_of([1])  # type: ignore[arg-type]


def exact_tail(k: int, n: int, p: float) -> mpf:
    with mp.workdps(60):
        return mp.fsum(comb(n, j) * mpf(p) ** j * (1 - mpf(p)) ** (n - j) for j in range(max(k, 0), n + 1))


@pytest.mark.parametrize("n", [1, 7, 300])
@pytest.mark.parametrize("p", [1e-12, 0.003, 0.4, 0.999])
def test_tails_are_sums_of_binomial_probabilities(n: int, p: float) -> None:
    for k in sorted({-1, 0, 1, n // 2, n, n + 1}):
        upper = exact_tail(k, n, p)
        assert float(at_least(k, n, p)) == pytest.approx(float(upper), rel=1e-9)
        with mp.workdps(60):
            lower = mp.fsum(comb(n, j) * mpf(p) ** j * (1 - mpf(p)) ** (n - j) for j in range(min(max(k, -1), n) + 1))
        assert float(at_most(k, n, p)) == pytest.approx(float(lower), rel=1e-9, abs=1e-280)


def test_two_sided_p_values_are_at_most_their_level() -> None:
    for n, p in ((5, 0.3), (40, 0.01), (200, 0.5)):
        k = np.arange(n + 1)
        values, chances = two_sided(k, n, p), stats.binom.pmf(k, n, p)
        for level in (0.5, 0.05, 1e-3, 1e-6):
            assert chances[values <= level].sum() <= level


def test_a_cell_that_the_label_gives_nothing_is_tested_as_if_it_had_very_little() -> None:
    assert two_sided(0, 10**6, 0.0) == 1.0
    assert two_sided(1, 10**6, 0.0) == pytest.approx(2 * LEAST * 10**6, rel=1e-3)


@pytest.mark.parametrize("level", [0.05, 1e-6])
def test_shares_are_clopper_and_pearson_s(level: float) -> None:
    for k, n in ((0, 10), (3, 10), (10, 10), (17, 4000)):
        wanted = stats.binomtest(k, n).proportion_ci(1 - 2 * level, method="exact")
        assert float(lowest_share(k, n, level)) == pytest.approx(wanted.low, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("probabilities", [[0.5, 0.5], [0.2, 0.3, 0.5], [0.01, 0.04, 0.45, 0.5]])
def test_the_table_s_p_value_is_not_below_the_enumerated_one(probabilities: list[float]) -> None:
    """For every outcome of a small multinomial: Pr(entropy at least this) ≤ the bound."""
    n, p = 12, np.array(probabilities)
    outcomes = [c for c in product(range(n + 1), repeat=p.size) if sum(c) == n]
    chance = [factorial(n) / prod(map(factorial, c)) * float(np.prod(p ** np.array(c))) for c in outcomes]
    entropy = [sum(k * log(k / (n * q)) for k, q in zip(c, p, strict=True) if k) for c in outcomes]
    assert sum(chance) == pytest.approx(1)
    smallest = 1.0
    for outcome, value in zip(outcomes, entropy, strict=True):
        bound = table_bound(np.array(outcome), p)
        smallest = min(smallest, bound)
        assert bound >= sum(q for q, e in zip(chance, entropy, strict=True) if e >= value - 1e-9) * (1 - 1e-9)
    assert smallest < 0.01


def test_a_table_that_cannot_be_has_no_chance() -> None:
    assert table_bound(np.array([0, 1000]), np.array([1.0, 0.0])) < 1e-300
    assert table_bound(np.array([0, 0]), np.array([0.5, 0.5])) == 1.0
    assert table_bound(np.array([5]), np.array([1.0])) == 1.0


def test_the_worst_of_many_counts_them_all() -> None:
    worst = Worst()
    assert worst.adjusted == 1.0
    worst.add([0.5, 0.001], lambda k: f"first {k}")
    worst.add(0.01, lambda _: "second", where=98)
    worst.add([], lambda _: "none")
    assert (worst.tests, worst.p_value, worst.what) == (100, 0.001, "first 1")
    assert worst.adjusted == pytest.approx(0.1)
