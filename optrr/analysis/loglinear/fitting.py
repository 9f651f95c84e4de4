"""Hierarchical log-linear models: which attributes interact, and the fit to one table's records or to many tables at once.

    ln π_x = β_0 + Σ_T β_T(x_T),      T over the terms: attribute sets, each with all of its subsets.

Columns X are in reference coding: for a set T one column for each choice of a category other than the first in each of
its attributes. β of an attribute is then a log odds against its first category, β of two a log odds ratio, where all
other attributes have their first.

**One table**: maximise ℓ(β) = Σ_v λ̂_v ln λ_v, λ = Pᵀπ(β). With J = Pᵀ diag(π)(X − 1 πᵀX), the derivative of λ in β, the score
is Jᵀ(λ̂/λ) and the information of a record Jᵀ diag(1/λ) J. Solutions, tests and intervals are those of any estimating equations
(:mod:`optrr.analysis.equations`). A step costs O(p R m) for the kernel and O(p² R) for the information; p parameters,
R cells, 8 p R bytes. Where a fitted cell tends to 0 some β has no finite maximum: β stops where no cell that it moves matters
any more. Coefficients may move in a direction d without end where Xd is the same in all other cells, and less in those that go
to 0: the directions of recession of the likelihood (Fienberg & Rinaldo, Annals of Statistics 40, 2012, §2). A coefficient
tends to infinity where they all take it one way, and has no limit where they take it both ways.

***Many tables under test**, without use of the tested effects: the fit starts from the model's own margins, each
generator's unbiased estimate, moved into the proportions, and iterative proportional fitting to all of them. That is
consistent, which is all that a score test needs. Where noise took no margin out of the proportions, the fit goes on to
the maximum-likelihood table; where it did, the margins' fit stays: the maximum-likelihood table would bend margins that
the records hardly show towards the interactions that the model leaves out, which are the tested ones
(:mod:`optrr.core.inference.nullfit` has the figures for two attributes).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import inf, nan, prod

import numpy as np
from numpy.typing import NDArray

from optrr.analysis.equations import Equations, Solved, estimated, solve
from optrr.core.display import category_word
from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.estimation import projection
from optrr.core.mechanisms import Kernel, Randomizer
from optrr_solvers.arrays import FloatArray, IntArray

_SIGN = re.compile(r"[*+]")
# The signs between terms and between their names, outside backticks.
_OUTSIDE = {sign: re.compile(rf"\{sign}(?=(?:[^`]*`[^`]*`)*[^`]*$)") for sign in "*+"}


@dataclass(frozen=True)
class Terms:
    """Terms of a hierarchical model: each set with all its subsets.

    Small ones come first; ``sets`` hold positions.
    """

    domain: Domain
    sets: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(domain: Domain, generators: Iterable[Iterable[str]]) -> Terms:
        """Build the closure of generators, such as [("a", "b"), ("c",)].

        Every attribute has its own term in any case.

        Raises InvalidInput for an attribute that the domain has not, or one named twice in a generator.
        """
        sets: set[tuple[int, ...]] = {(i,) for i in range(domain.m)}
        for generator in generators:
            chosen = tuple(sorted(domain.indices(tuple(generator))))
            sets |= {part for k in range(1, len(chosen) + 1) for part in combinations(chosen, k)}
        return Terms(domain, tuple(sorted(sets, key=lambda s: (len(s), s))))

    @property
    def generators(self) -> tuple[tuple[int, ...], ...]:
        """The sets that lie in no other: they name the model."""
        return tuple(s for s in self.sets if not any(set(s) < set(t) for t in self.sets))

    def with_term(self, term: Sequence[int]) -> Terms:
        """Return the model with one more set and its subsets."""
        return Terms.of(self.domain, [self._names(s) for s in (*self.sets, tuple(term))])

    def without_term(self, term: tuple[int, ...]) -> Terms:
        """Return the model without a generator."""
        return Terms(self.domain, tuple(s for s in self.sets if s != term))

    def _names(self, positions: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.domain.names[i] for i in positions)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Iterate over the generators by names."""
        return map(self._names, self.generators)

    def __str__(self) -> str:
        return " + ".join("*".join(map(_quoted, names)) for names in self)

    def __le__(self, other: Terms) -> bool:
        """Check whether every term is in the other model."""
        return self.domain == other.domain and set(self.sets) <= set(other.sets)

    @property
    def parameters(self) -> int:
        """Number of columns."""
        return sum(int(np.prod([self.domain.sizes[i] - 1 for i in s])) for s in self.sets)

    def columns(self) -> FloatArray:
        """Build the design matrix, (p, *sizes): a table of 0 and 1 per parameter."""
        return np.concatenate([indicators(self.domain, s) for s in self.sets])

    def flat_columns(self) -> FloatArray:
        """Build the design matrix, (p, R)."""
        return self.columns().reshape(self.parameters, -1)

    def labels(self) -> list[str]:
        """Name each parameter: ``sex = M``, ``sex = M : income = high``."""
        out = []
        for s in self.sets:
            categories = [self.domain.attributes[i].texts[1:] for i in s]
            for codes in np.ndindex(*(len(c) for c in categories)):
                named = zip(self._names(s), (c[k] for c, k in zip(categories, codes, strict=True)), strict=True)
                out.append(" : ".join(f"{name} = {category_word(text)}" for name, text in named))
        return out


def indicators(domain: Domain, chosen: Sequence[int]) -> FloatArray:
    """Build a table for each choice of categories other than the first.

    In the chosen attributes; (p, *sizes).
    """
    sizes = tuple(map(int, domain.sizes))
    each = [np.expand_dims(np.eye(sizes[i])[1:], [k + 1 for k in range(domain.m) if k != i]) for i in chosen]
    choices = np.ndindex(*(len(tables) for tables in each))
    made = [prod(tables[k] for tables, k in zip(each, codes, strict=True)) for codes in choices]
    return np.stack([np.broadcast_to(table, sizes) for table in made])


def _quoted(name: str) -> str:
    return f"`{name}`" if _SIGN.search(name) else name


def split_terms(text: str) -> list[list[str]]:
    """Split ``a*b + c`` into sets of names.

    Sets are joined by +, attributes of a set by *; a name with these characters is written in backticks.
    """
    return [[name.strip().strip("`") for name in _OUTSIDE["*"].split(part)] for part in _OUTSIDE["+"].split(text)]


def parse_terms(text: str, domain: Domain) -> Terms:
    """Parse a model of terms such as ``a*b + c``; see :func:`split_terms`.

    Raises InvalidInput for a name that the domain has not.
    """
    generators = split_terms(text)
    if any(not name for part in generators for name in part):
        raise InvalidInput(f"the model {text!r} names an empty term; write sets such as a*b + c")
    return Terms.of(domain, generators)


# Records added to every cell of a margin, so that no direction of the model vanishes in empty cells; too few to matter
# to any test.
_LEAST = 0.5
# Largest part of the fitted margin that is added to all cells together in the law of drawn tables. In a margin with as
# much information as half a true record a cell, half a record in every cell is as much as the margin itself. Drawn ones
# were nearly even then, where statistics are smaller, and a test rejected 8 % at level 5 % and 3 % at 1 %
# (benchmarks/strata_levels.py, setting 27).
_MOST_ADDED = 0.1
# Standard errors of a margin's cell above 0 at which noise hardly ever takes it out of the proportions.
_CLEAR_OF_ZERO = 2.0
# Rounds of proportional fitting, and the change of a cell at which it ends. Two margins need two rounds; three close loops
# some twenty.
_ROUNDS, _CHANGE = 50, 1e-7
# Added to correlations, so that directions that repeat each other to rounding do not stop the solve; far below what matters.
_RIDGE = 1e-11
# Smallest probability of an expected report: weights stay finite where a mechanism that changes nothing meets empty
# cells.
_IMPOSSIBLE = 1e-18


@dataclass(frozen=True, eq=False)
class TableFits:
    """Fitted proportions and expected reports of B tables, both (B, *sizes).

    Also whether each fit has all margins inside the simplex, (B,).
    """

    proportions: FloatArray
    expected: FloatArray
    proper: NDArray[np.bool_]

    def part(self, which: IntArray) -> TableFits:
        """Select tables."""
        return TableFits(self.proportions[which], self.expected[which], self.proper[which])


@dataclass(frozen=True, eq=False)
class NullModel:
    """A model to be fitted for a test.

    ``kernel`` of the whole table, and one for each of the model's generators.
    """

    terms: Terms
    kernel: Kernel
    parts: tuple[Kernel, ...]

    @staticmethod
    def of(terms: Terms, mechanism: Randomizer) -> NullModel:
        """Build the model through a mechanism.

        Raises SingularMarginal if it makes an interaction non-identifiable.
        """
        names = terms.domain.names
        parts = tuple(mechanism.kernel(tuple(names[i] for i in chosen)) for chosen in terms.generators)
        for part in parts:
            part.check_invertible()
        return NullModel(terms, mechanism.kernel(names), parts)

    @cached_property
    def columns(self) -> FloatArray:
        """The design matrix, (p, *sizes)."""
        return self.terms.columns()

    def fitted(self, tables: FloatArray) -> TableFits:
        """Fit the model to tables of counts (B, *sizes).

        The maximum likelihood fit if margins are proper.
        """
        start, cells = self.started(tables), self.kernel.cells
        which = np.flatnonzero(start.proper)
        n, flat = tables[which].sum(axis=self.kernel.axes), self.columns.reshape(-1, cells)
        equations = LogLinearEquations(tables[which].reshape(-1, cells) / n[:, None], n, flat, self.kernel)
        near = start.proportions[which].reshape(-1, cells)
        solved = solve(equations, np.log(near) @ self._reading)
        found = np.where(solved.converged[:, None], equations.proportions(solved.theta), near)
        start.proportions[which] = found.reshape(-1, *self.kernel.sizes)
        start.expected[which] = self.reports(start.proportions[which])
        return start

    def started(self, tables: FloatArray) -> TableFits:
        """Fit the model to the estimated margins, projected to proportions."""
        n = tables.sum(axis=self.kernel.axes)
        margins = self._margins(tables / _spread(n, tables.ndim))
        proper = np.all([m.reshape(n.size, -1).min(axis=1) > 0 for m in margins], axis=0)
        start = self._proportional([_proper(m, _LEAST / n) for m in margins])
        return TableFits(start, self.reports(start), proper)

    @cached_property
    def _reading(self) -> FloatArray:
        """Linear map from logarithms of the model's table to coefficients, (R, p)."""
        flat = self.columns.reshape(-1, self.kernel.cells)
        return np.asarray(np.linalg.pinv(np.vstack([np.ones(flat.shape[1]), flat]))[:, 1:])

    def cautious(self, fits: TableFits, n: NDArray[np.integer]) -> FloatArray:
        """Compute expected reports from which to draw tables, (B, *sizes).

        Every cell of a margin gets half a record more.

        Fitted margins have empty cells more often than true ones. A record counts as many as it takes without randomization to
        estimate an even margin as well as these ``n`` (B,) do; where that is few, all cells together get a tenth of the margin.
        """
        margins = []
        for chosen, part in zip(self.terms.generators, self.parts, strict=True):
            added = np.minimum(_LEAST / self._worth(chosen, part, fits.expected, n), _MOST_ADDED / part.cells)
            margins.append(_padded(fits.proportions.sum(axis=self._beside(chosen)), added))
        return self.reports(self._proportional(margins))

    def clear_of_zero(self, fits: TableFits, n: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Check that all fitted margins are two standard errors above 0, (B,)."""
        out = fits.proper.copy()
        for chosen, part in zip(self.terms.generators, self.parts, strict=True):
            rest = self._beside(chosen)
            error = np.sqrt(part.exact_variance(fits.expected.sum(axis=rest), 1.0) / _spread(n, len(chosen) + 1))
            near = fits.proportions.sum(axis=rest) < _CLEAR_OF_ZERO * error
            out &= ~near.any(axis=part.axes)
        return np.asarray(out)

    def records_worth(self, fits: TableFits, n: NDArray[np.integer]) -> FloatArray:
        """Compute the equivalent number of true records per cell, (B,).

        They would show the most attenuated margin of the model as well.
        """
        pairs = zip(self.terms.generators, self.parts, strict=True)
        each = [self._worth(chosen, part, fits.expected, n) / part.cells for chosen, part in pairs]
        return np.asarray(np.min(each, axis=0))

    def _worth(self, chosen: tuple[int, ...], part: Kernel, expected: FloatArray, n: NDArray[np.integer]) -> FloatArray:
        """Compute how many true records show an even margin as well, (B,)."""
        variance = part.exact_variance(expected.sum(axis=self._beside(chosen)), 1.0).mean(axis=part.axes)
        return np.asarray((1 - 1 / part.cells) / part.cells / variance * n)

    def _beside(self, chosen: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(i + 1 for i in range(len(self.kernel.sizes)) if i not in chosen)

    def _margins(self, observed: FloatArray) -> list[FloatArray]:
        """Estimate the generators' margins without bias, each (B, *its sizes)."""
        pairs = zip(self.terms.generators, self.parts, strict=True)
        return [part.solve(observed.sum(axis=self._beside(chosen))) for chosen, part in pairs]

    def _proportional(self, margins: list[FloatArray]) -> FloatArray:
        """Fit the table with these margins (Deming & Stephan 1940)."""
        b = margins[0].shape[0]
        table = np.full((b, *self.kernel.sizes), 1 / self.kernel.cells)
        for _ in range(_ROUNDS):
            before = table
            for chosen, margin in zip(self.terms.generators, margins, strict=True):
                rest = self._beside(chosen)
                table = table * np.expand_dims(margin / table.sum(axis=rest), rest)
            if len(margins) == 1 or np.abs(table - before).max(initial=0.0) <= _CHANGE:
                break
        return np.asarray(table / table.sum(axis=self.kernel.axes, keepdims=True))

    def reports(self, table: FloatArray) -> FloatArray:
        """Compute expected reports of true tables, positive, with sum 1."""
        lam = np.maximum(self.kernel.forward(table), _IMPOSSIBLE)
        return np.asarray(lam / lam.sum(axis=self.kernel.axes, keepdims=True))


def pushed(columns: FloatArray, proportions: FloatArray, kernel: Kernel) -> FloatArray:
    """Differentiate the expected reports of B tables in coefficients, (B, p, R).

    ``columns`` have shape (p, *sizes).
    """
    b, flat = proportions.shape[0], columns.reshape(len(columns), -1)
    shares = proportions.reshape(b, -1)
    centred = (flat[None] - (shares @ flat.T)[:, :, None]) * shares[:, None, :]
    return np.asarray(kernel.forward(centred.reshape(b, len(columns), *kernel.sizes)).reshape(b, len(columns), -1))


def scaled_solve(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Solve systems (B, p, q) after scaling to unit diagonals.

    Directions of rare cells then do not spoil the solution.
    """
    scale = 1 / np.sqrt(np.maximum(np.einsum("zkk->zk", matrix), np.finfo(np.float64).tiny))[:, :, None]
    correlation = matrix * scale * np.swapaxes(scale, 1, 2) + _RIDGE * np.eye(matrix.shape[1])
    return np.asarray(scale * np.linalg.solve(correlation, scale * right))


def _spread(n: FloatArray | NDArray[np.integer], dimensions: int) -> FloatArray:
    return np.asarray(n, dtype=np.float64).reshape(-1, *(1,) * (dimensions - 1))


def _proper(margins: FloatArray, added: FloatArray) -> FloatArray:
    flat = margins.reshape(margins.shape[0], -1)
    outside = flat.min(axis=1) < 0
    if outside.any():
        flat = flat.copy()
        flat[outside] = projection(flat[outside])
    return _padded(flat.reshape(margins.shape), added)


def _padded(margins: FloatArray, added: FloatArray) -> FloatArray:
    """Add ``added`` (B,) to each cell and normalize to 1."""
    padded = margins + _spread(added, margins.ndim)
    return np.asarray(padded / padded.sum(axis=tuple(range(1, margins.ndim)), keepdims=True))


def check_seen(terms: Terms, mechanism: Randomizer) -> None:
    """Raise SingularMarginal for a model with a non-identifiable interaction."""
    for generator in terms.generators:
        mechanism.kernel(tuple(terms.domain.names[i] for i in generator)).check_invertible()


# Relative size below which a direction does not change cells.
_SAME = 1e-10
# Value of a linear program for a direction of length 1 below which it is 0.
_ZERO = 1e-7


def limits_of_coefficients(coefficients: FloatArray, columns: FloatArray, empty: NDArray[np.bool_]) -> FloatArray:
    """Replace coefficients that diverge as ``empty`` cells (R,) go to 0.

    By ∞ or −∞, or NaN if there is no limit; (p,).

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
    """Check whether a direction z with ``falls`` z ≤ 0 has ``aim``·z > 0."""
    from scipy.optimize import linprog  # noqa: PLC0415 (slow to import, and few tables need it)

    solution = linprog(-aim, A_ub=falls, b_ub=np.zeros(len(falls)), bounds=(-1, 1))
    return bool(-solution.fun > _ZERO)


# Doubles of the derivative J: 800 MB.
MOST_DOUBLES = 10**8
# The longest step of the logarithm of a cell's odds, and the farthest ends of intervals, odds of e^25.
_LONGEST_STEP, _FARTHEST = 3.0, 25.0
# Smallest proportion of a cell, so that logarithms are finite.
_TINY = 1e-250
# Part of the information that is added in every direction, so that the search along an empty one ends.
_LITTLE = 1e-13


@dataclass(frozen=True, eq=False)
class LogLinearState:
    """Quantities at β.

    Proportions π and expected reports λ, (B, R); columns less their means (B, p, R), and J of them.
    """

    proportions: FloatArray
    expected: FloatArray
    centred: FloatArray
    derivative: FloatArray

    @cached_property
    def information(self) -> FloatArray:
        """Information of one record on β, (B, p, p)."""
        return np.asarray((self.derivative / self.expected[:, None]) @ np.swapaxes(self.derivative, 1, 2))


@dataclass(frozen=True, eq=False)
class LogLinearEquations(Equations):
    """Likelihood of B data sets in the coefficients of ``columns`` (p, R).

    They have ``n`` (B,) records.

    ``observed`` (B, R) are their proportions of the reports.
    """

    observed: FloatArray
    n: FloatArray
    columns: FloatArray
    kernel: Kernel
    last: list[tuple[FloatArray, LogLinearState]] = field(default_factory=list, init=False)

    method = "maximum likelihood"
    # an emptied cell goes on to promise its proportion
    done = 1e-13

    @property
    def parameters(self) -> int:
        """p."""
        return len(self.columns)

    def start(self) -> FloatArray:
        """Return the coefficients of even proportions."""
        return np.zeros((len(self.n), self.parameters))

    def proportions(self, theta: FloatArray) -> FloatArray:
        """Compute the model's proportions π, (B, R)."""
        logs = theta @ self.columns
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(np.maximum(shares / shares.sum(axis=1, keepdims=True), _TINY))

    def at(self, theta: FloatArray) -> LogLinearState:
        """Compute all quantities at β; the last ones are cached."""
        if not self.last or not np.array_equal(self.last[0][0], theta):
            shares = self.proportions(theta)
            centred = self.columns[None] - (shares @ self.columns.T)[:, :, None]
            derivative = self._forward(centred * shares[:, None])
            self.last[:] = [(theta.copy(), LogLinearState(shares, self._expected(shares), centred, derivative))]
        return self.last[0][1]

    def objective(self, theta: FloatArray) -> FloatArray:
        """Compute the log-likelihood per record, Σ λ̂ ln λ."""
        return np.asarray(np.sum(self.observed * np.log(self._expected(self.proportions(theta))), axis=1))

    def score(self, theta: FloatArray) -> FloatArray:
        """Compute the score of the log-likelihood, J(λ̂/λ)."""
        at = self.at(theta)
        return np.asarray((at.derivative @ (self.observed / at.expected)[:, :, None])[:, :, 0])

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Compute the observed information.

        J diag(λ̂/λ²) Jᵀ, and the columns' covariance less that among the records expected behind the reports.
        """
        at = self.at(theta)
        ratio = self.observed / at.expected
        sizes = self.kernel.sizes
        behind = at.proportions * self.kernel.adjoint(ratio.reshape(-1, *sizes)).reshape(ratio.shape)
        bent = (at.centred * (at.proportions - behind)[:, None]) @ np.swapaxes(at.centred, 1, 2)
        return np.asarray((at.derivative * (ratio / at.expected)[:, None]) @ np.swapaxes(at.derivative, 1, 2) + bent)

    def steering(self, theta: FloatArray) -> FloatArray:
        """Return H if it is positive definite, else the information."""
        curvature = self.curvature(theta)
        positive = np.linalg.eigvalsh(curvature)[:, 0] > 0
        if not positive.all():
            curvature = np.where(positive[:, None, None], curvature, self.efficient(theta)[1])
        least = _LITTLE * np.einsum("bpp->b", curvature)[:, None, None] * np.eye(self.parameters)
        return np.asarray(curvature + least)

    def log_likelihood(self, theta: FloatArray) -> FloatArray | None:
        """Compute the log-likelihood of all reports."""
        return self.n * self.objective(theta)

    def efficient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute the score and the information."""
        return self.score(theta), self.at(theta).information

    def spread(self, theta: FloatArray) -> FloatArray:
        """Compute the information."""
        return self.at(theta).information

    def clear(self, theta: FloatArray, where: IntArray) -> NDArray[np.bool_]:
        """Return true everywhere, as the information has no error."""
        del where
        return np.ones(len(theta), dtype=np.bool_)

    def shortened(self, step: FloatArray, free: IntArray) -> FloatArray:
        """Limit a step to a few units of log-odds per cell."""
        moved = np.ptp(step @ self.columns[free], axis=1)
        return np.asarray(step * np.minimum(1.0, _LONGEST_STEP / np.maximum(moved, _TINY))[:, None])

    @property
    def reach(self) -> FloatArray:
        """Odds beyond which an end counts as infinite."""
        return np.full(self.parameters, _FARTHEST)

    def part(self, which: IntArray) -> LogLinearEquations:
        """Select data sets."""
        if len(which) == len(self.n):
            return self
        return LogLinearEquations(self.observed[which], self.n[which], self.columns, self.kernel)

    def _expected(self, shares: FloatArray) -> FloatArray:
        # a mechanism that changes nothing expects 0 where a proportion is 0
        return np.maximum(self._forward(shares), _TINY)

    def _forward(self, tables: FloatArray) -> FloatArray:
        return np.asarray(
            self.kernel.forward(tables.reshape(*tables.shape[:-1], *self.kernel.sizes)).reshape(tables.shape)
        )


def check_size(terms: Terms) -> None:
    """Refuse a model whose derivatives do not fit into memory."""
    cells = prod(map(int, terms.domain.sizes))
    if terms.parameters * cells > MOST_DOUBLES:
        raise InvalidInput(
            f"the model {terms} has {terms.parameters} parameters in {cells} cells, and their product may be at most "
            f"{MOST_DOUBLES}; leave out interactions or attributes"
        )


def fit(terms: Terms, observed: FloatArray, kernel: Kernel, n: float = 1.0) -> tuple[LogLinearEquations, Solved]:
    """Maximize the model's likelihood for observed proportions.

    The proportions have the kernel's sizes.

    Raises InvalidInput if the model has more parameters than fit into memory.
    """
    check_size(terms)
    made = LogLinearEquations(observed.reshape(1, -1), np.array([n]), terms.flat_columns(), kernel)
    return made, estimated(made)
