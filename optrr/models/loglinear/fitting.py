"""Maximum likelihood of a log-linear model from randomized records.

    maximise ℓ(β) = Σ_v λ̂_v ln λ_v,   λ = Pᵀπ(β),   π(β) ∝ exp(Xβ).

With J = Pᵀ diag(π)(X − 1 πᵀX), the derivative of λ in β, the score is Jᵀ(λ̂/λ) and the information of a record Jᵀ diag(1/λ) J.
EM comes near the maximum and cannot lose likelihood: given a table, the records that it expects behind the reports
(π ∘ P(λ̂/λ)) are fitted by iterative proportional fitting to the model's margins. Fisher scoring then finishes. Where a fitted
cell tends to 0 some β has no finite maximum: β stops where no cell that it moves matters any more, and
:mod:`optrr.models.loglinear.fitting` says which.

A step costs O(p R m) for the kernel and O(p² R) for the information; p parameters, R cells, 8 p R bytes.

Which coefficients of a log-linear model are infinite where cells of its fitted table have gone to 0.

Coefficients may move in a direction d without end where Xd is the same in all other cells, and less in those that go to 0: the
directions of recession of the likelihood (Fienberg & Rinaldo, Annals of Statistics 40, 2012, §2). A coefficient tends to
infinity where they all take it one way, and has no limit where they take it both ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, nan, prod

import numpy as np
from numpy.typing import NDArray

from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import Kernel
from optrr.models.loglinear.margins import Terms, pushed
from optrr_solvers.arrays import FloatArray

# Directions that change cells by less than this share of the one that changes them most do not change them.
_SAME = 1e-10
# What a linear program says of a direction of length 1 is 0 below this.
_ZERO = 1e-7


def limits_of_coefficients(coefficients: FloatArray, columns: FloatArray, empty: NDArray[np.bool_]) -> FloatArray:
    """The coefficients (p,) with ∞ or −∞ for those that tend to it where ``empty`` cells (R,) go to 0, NaN for no limit.

    ``columns`` (p, R) are the model's. Two linear programs for each coefficient that the other cells leave open.
    """
    centred = columns - columns[:, ~empty].mean(axis=1, keepdims=True)
    kept = centred[:, ~empty]
    values, vectors = np.linalg.eigh(kept @ kept.T)
    free = vectors[:, values <= _SAME * max(float(np.max(np.sum(centred**2, axis=1))), 1.0)]
    falls, out = centred[:, empty].T @ free, coefficients.copy()
    for k in np.flatnonzero(np.abs(free).max(axis=1, initial=0.0) > _ZERO):
        up, down = (_farthest(side * free[k], falls) for side in (1.0, -1.0))
        if up or down:
            out[k] = nan if up and down else inf if up else -inf
    return out


def _farthest(aim: FloatArray, falls: FloatArray) -> bool:
    """Whether a direction z with ``falls`` z ≤ 0 has ``aim``·z > 0."""
    from scipy.optimize import linprog  # noqa: PLC0415 (slow to import, and few tables need it)

    solution = linprog(-aim, A_ub=falls, b_ub=np.zeros(len(falls)), bounds=(-1, 1))
    return bool(-solution.fun > _ZERO)


# Doubles of the derivative J: 800 MB.
MOST_DOUBLES = 10**8
# Steps of EM before scoring: by then the likelihood is convex enough that scoring does not stray.
_EM_STEPS, _SWEEPS = 10, 2
# Scoring ends where a step promises less than this many nats per record; at 10^9 records a billionth of a standard error².
TOLERANCE = 1e-14
_MOST_STEPS, _HALVINGS = 200, 30
# A cell with less than this share of the people matters to no report.
_FLOOR = 1e-12
# Directions with less than this share of the largest information are not known from the records.
_SINGULAR = 1e-10


@dataclass(frozen=True, eq=False)
class FittedLogLinear:
    """A fitted model: β (p,), proportions π and expected reports λ of the kernel's sizes.

    ``gain`` is what another scoring step promises, in nats per record.
    """

    terms: Terms
    kernel: Kernel
    coefficients: FloatArray
    proportions: FloatArray
    expected: FloatArray
    gain: float
    steps: int

    def log_likelihood(self, observed: FloatArray) -> float:
        """ℓ in nats per record."""
        seen = observed > 0
        return float(np.sum(observed[seen] * np.log(self.expected[seen])))

    @cached_property
    def derivative(self) -> FloatArray:
        """J, (p, R)."""
        return np.asarray(pushed(self.terms.columns(), self.proportions[None], self.kernel)[0])

    @cached_property
    def information(self) -> FloatArray:
        """Of one record on β, (p, p)."""
        return (self.derivative / self.expected.ravel()) @ self.derivative.T


def check_size(terms: Terms) -> None:
    """Refuse a model whose derivatives do not fit into memory."""
    cells = prod(map(int, terms.domain.sizes))
    if terms.parameters * cells > MOST_DOUBLES:
        raise InvalidInput(
            f"the model {terms} has {terms.parameters} parameters in {cells} cells, and their product may be at most "
            f"{MOST_DOUBLES}; leave out interactions or attributes"
        )


def fit(terms: Terms, observed: FloatArray, kernel: Kernel) -> FittedLogLinear:
    """The likeliest table of the model, for observed proportions of the kernel's sizes.

    Raises
    ------
    InvalidInput
        where the model has more parameters than fit into memory, or the mechanism hides all of them
        (:func:`optrr.models.loglinear.loglinear.check_seen` refuses single interactions that it hides).
    """
    check_size(terms)
    table = _approached(terms, observed, kernel)
    columns = terms.columns()
    flat = columns.reshape(len(columns), -1)
    logs = np.log(np.maximum(table, _FLOOR)).ravel()
    beta = np.linalg.lstsq(np.vstack([np.ones(flat.shape[1]), flat]).T, logs, rcond=None)[0][1:]
    return _scored(terms, np.asarray(beta), observed, kernel)


def _scored(terms: Terms, beta: FloatArray, observed: FloatArray, kernel: Kernel) -> FittedLogLinear:
    flat = terms.columns().reshape(terms.parameters, -1)
    now = _at(terms, beta, flat, kernel, np.inf, 0)
    for step in range(1, _MOST_STEPS + 1):
        score = now.derivative @ (observed / now.expected).ravel()
        direction = solved(now.information, score, terms)
        gain = float(score @ direction) / 2
        now = _at(terms, now.coefficients, flat, kernel, gain, step)
        if gain <= TOLERANCE:
            break
        better = _improved(now, direction, observed, flat)
        if better is None:
            break
        now = better
    return now


def _improved(
    now: FittedLogLinear, direction: FloatArray, observed: FloatArray, flat: FloatArray
) -> FittedLogLinear | None:
    """The largest halved step that raises the likelihood; None where none does, to rounding."""
    likelihood = now.log_likelihood(observed)
    for halving in range(_HALVINGS):
        new = _at(now.terms, now.coefficients + direction / 2**halving, flat, now.kernel, now.gain, now.steps)
        if new.log_likelihood(observed) > likelihood:
            return new
    return None


def _at(terms: Terms, beta: FloatArray, flat: FloatArray, kernel: Kernel, gain: float, steps: int) -> FittedLogLinear:  # noqa: PLR0913
    logs = beta @ flat
    table = np.exp(logs - logs.max())
    table = np.maximum(table / table.sum(), _FLOOR / table.size).reshape(kernel.sizes)
    table = table / table.sum()
    # a mechanism that changes nothing expects 0 where a share is 0; the floor keeps ratios finite
    expected = np.maximum(kernel.forward(table), _FLOOR**2)
    return FittedLogLinear(terms, kernel, beta, table, expected, gain, steps)


def solved(information: FloatArray, score: FloatArray, terms: Terms) -> FloatArray:
    """The scoring step, least in length where a cell at 0 leaves directions without information.

    Raises
    ------
    InvalidInput
        where the mechanism hides every parameter of the model.
    """
    values, vectors = np.linalg.eigh(information)
    known = values > _SINGULAR * max(values.max(), 0.0)
    if not known.any():
        raise InvalidInput(
            f"the mechanism hides every interaction of the model {terms}; give the attributes a larger epsilon"
        )
    return np.asarray(vectors[:, known] @ ((vectors[:, known].T @ score) / values[known]))


def _approached(terms: Terms, observed: FloatArray, kernel: Kernel) -> FloatArray:
    """A table of the model near the likeliest one, by EM."""
    table = np.full(kernel.sizes, 1 / kernel.cells)
    for _ in range(_EM_STEPS):
        expected = np.maximum(kernel.forward(table), _FLOOR**2)
        behind = table * np.maximum(kernel.adjoint(observed / expected), 0.0)
        table = _proportional(table, behind / behind.sum(), terms)
    return table


def _proportional(table: FloatArray, target: FloatArray, terms: Terms) -> FloatArray:
    """The table scaled to the target's margins of the model, a few rounds (Deming & Stephan, Ann. Math. Stat. 11, 1940)."""
    for _ in range(_SWEEPS):
        for chosen in terms.generators:
            rest = tuple(i for i in range(table.ndim) if i not in chosen)
            own = np.maximum(table.sum(axis=rest, keepdims=True), _FLOOR)
            table = table * (np.maximum(target.sum(axis=rest, keepdims=True), _FLOOR) / own)
    return np.asarray(table / table.sum())
