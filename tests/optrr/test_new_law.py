"""A law that nothing else knows, written in one place: design file, verify, perturb and estimate take it as it is."""

import itertools
import math

import msgspec
import numpy as np
import pandas as pd
import pytest

from optrr.designs.design import Design
from optrr.designs.design_file import checks, load_design, save_design
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.records.counts import count
from optrr.tables.estimation.estimator import estimate
from optrr_solvers import Problem, Solution, Status, lower_bound
from optrr_solvers.automaton.diagram import MOST_STATES, Totals, totals_diagram
from optrr_solvers.laws.base import Law, checked_subset
from optrr_solvers.laws.record import KINDS


class NearRecord(msgspec.Struct, forbid_unknown_fields=True):
    """How many changes are near, and ln of their density."""

    reach: int
    nats: float


class NearLaw(Law):
    """Density e^nats for at most ``reach`` changes, and 1 beyond: a ball of equal weights."""

    kind = "near"
    Record = NearRecord

    def __init__(self, sizes, reach, nats):
        self.sizes, self.reach, self.nats = np.asarray(sizes, dtype=np.int64), int(reach), float(nats)

    def to_record(self):
        return NearRecord(self.reach, self.nats)

    @classmethod
    def from_record(cls, record, sizes):
        return cls(sizes, record.reach, record.nats)

    def diagram(self, most=MOST_STATES):
        steps = np.ones(self.m, dtype=np.int64)
        return totals_diagram(Totals(steps, lambda k: np.where(k <= self.reach, self.nats, 0.0)), most)

    def marginal(self, subset):
        chosen, out = checked_subset(subset, self.m), np.zeros((2,) * len(subset))
        for s in itertools.product((0, 1), repeat=self.m):
            outputs = math.prod(int(r) - 1 for r, c in zip(self.sizes, s, strict=True) if c)
            out[tuple(s[i] for i in chosen)] += outputs * math.exp(self.nats * (sum(s) <= self.reach))
        return out / out.sum()

    def one_way(self):
        return np.stack([self.marginal((i,)) for i in range(self.m)])

    def log_density_range(self):
        return 0.0, self.nats

    def conditional_epsilons(self):
        return np.full(self.m, self.nats)

    def epsilon_parts(self):
        return [self.nats]


@pytest.fixture
def near_law(monkeypatch):
    monkeypatch.setitem(KINDS, "near", NearLaw)


def near_design() -> Design:
    domain = Domain.of({"sex": ["f", "m"], "class": 4, "age": 5})
    law = NearLaw(domain.sizes, 1, 2.5)
    # accuracies that the law has, rounded down, so that it is a solution of the problem
    problem = Problem(domain.sizes, law.attribute_epsilons() * (1 - 1e-12), names=domain.names)
    return Design(domain, Solution(problem, "near", law, None, lower_bound(problem, None), Status.BASELINE, 0.0))


@pytest.mark.usefixtures("near_law")
def test_a_new_law_goes_through_file_verify_perturb_and_estimate(tmp_path):
    made = near_design()
    save_design(made, tmp_path / "near.json")
    read = load_design(tmp_path / "near.json")
    assert isinstance(read.law, NearLaw) and read.law.to_record() == made.law.to_record()
    assert all(check.holds for check in checks(read)) and 2.5 <= read.epsilon <= 2.5 + 1e-12
    rng = np.random.default_rng(3)
    n = 200_000
    true = {
        "sex": rng.choice(["f", "m"], n, p=[0.3, 0.7]),
        "class": rng.integers(0, 4, n) ** 2 // 3,
        "age": np.zeros(n, int),
    }
    frame = pd.DataFrame(true)
    noisy = read.mechanism.perturb(frame, random_state=4)
    estimated = estimate(count(noisy, read.domain, ["sex", "class"]), read.mechanism)
    wanted = pd.crosstab(frame["sex"], frame["class"]).reindex(columns=range(4), fill_value=0).to_numpy() / n
    # 8 cells beyond 5.5 standard errors: 3e-7
    assert np.all(np.abs(estimated.proportions - wanted) < 5.5 * estimated.standard_errors)
    assert np.abs(estimated.proportions - wanted).max() < 0.02


def test_a_kind_that_is_not_listed_is_neither_written_nor_read(tmp_path, monkeypatch):
    with pytest.raises(InvalidInput, match="NearLaw cannot be written"):
        save_design(near_design(), tmp_path / "near.json")
    with monkeypatch.context() as patch:
        patch.setitem(KINDS, "near", NearLaw)
        save_design(near_design(), tmp_path / "near.json")
    with pytest.raises(InvalidInput, match="kind is 'near'; this version reads ball, blocks"):
        load_design(tmp_path / "near.json")
