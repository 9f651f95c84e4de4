"""Formulas such as ``income ~ sex + C(age)``: an outcome, and columns that are functions of a few attributes each.

formulaic reads the formula and makes the columns; it sees categories only, never records. Numbers are taken as they
are, other categories by treatment coding against the first declared one. A column must be a function of one record: a
term that depends on the other records of a frame, such as ``center(x)`` or ``x / x.max()``, is refused. The check is
that records alone, and beside copies of themselves, have the columns that they have among all categories. A formula may
contain Python expressions, which are run: do not use formulas from untrusted sources.

``bs(x, df=5)`` and ``poly(x, 2)`` are splines and orthogonal polynomials over the numbers of an attribute's categories, each
counted once, since how often they occur is randomized: knots are quantiles of these numbers. ``offset(x)`` is a column whose
coefficient is 1.

Names that Python or formulaic would misread have aliases in the formula: names in backticks, names with dots such as
``W.Hnd`` (but not ``np.pi``), and attributes called as a function of formulaic, such as ``C``.
"""

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from optrr.core.display import category_word
from optrr.core.domain import Attribute, Domain, checked_scores, has_numbers, listed
from optrr.core.errors import InvalidInput, did_you_mean, in_one_line, not_installed
from optrr_solvers.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

    from optrr.core.domain import Attribute

# A text in quotes; a name in backticks; a name, with dots or without, that is not called.
_NAMES = re.compile(r"""("[^"]*"|'[^']*')|`([^`]+)`|(?<![\w.\[])([^\W\d]\w*(?:\.[\w.]*\w)?)(?![\w.]|\s*[(\[])""")
# Names whose dots lead into them.
_MODULES = ("np.", "contr.")
# Records that are tried alone, each a few milliseconds: all of them where attributes have no more categories than this.
_ALONE = 32
# Relative difference, from rounding, up to which a record's columns are equal.
_SAME = 1e-9
# Functions of ours, and how a formula calls them once it is read, so that they are not formulaic's.
_OURS = re.compile(r"(?<![\w.])(bs|poly|offset)(?=\s*\()")
# Functions of formulaic that learn from the records of a frame.
_LEARNING = re.compile(r"(?<![\w.])(cc|cr|cs|center|lag|scale|standardize)\s*\(")
_BS, _POLY, _OFFSET = _CALLED = ("optrr_bs", "optrr_poly", "optrr_offset")


@dataclass(frozen=True)
class Term:
    """A term of a formula.

    Its name, the attributes it depends on, in the domain's order, and its columns.

    The offset has no columns.
    """

    name: str
    attributes: tuple[str, ...]
    columns: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Formula:
    """A parsed formula, not yet bound to categories.

    ``outcome``, the right-hand side ``right`` (formulaic's), and ``aliases`` by name.
    """

    text: str
    outcome: str
    right: Any
    aliases: Mapping[str, str]

    @staticmethod
    def of(text: str) -> "Formula":
        """Read a formula.

        Raises InvalidInput for one that cannot be read, or that has no plain attribute on its left-hand side.
        """
        formulaic = _formulaic()
        plain, aliases = _aliased(text, {*formulaic.transforms.TRANSFORMS, "offset"})
        try:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", SyntaxWarning
                )  # of Python's, on expressions that are refused or run below
                parsed = formulaic.Formula(plain, _ordering="none")
                # terms between operators are parsed as Python only here
                _ = parsed.required_variables
        except Exception as error:  # reading Python may raise anything
            raise InvalidInput(
                f"the formula {text!r} cannot be read: {_named(_plain(error), aliases)}; write one such as 'y ~ a + b', a "
                "name with spaces as `a name`"
            ) from None
        if _LEARNING.search(plain):
            raise _learns(text)
        sides = (getattr(parsed, "lhs", None), getattr(parsed, "rhs", None))
        left = [] if sides[0] is None else list(sides[0])
        factors = list(left[0].factors) if len(left) == 1 else []
        if len(factors) != 1 or factors[0].eval_method.value != "lookup" or not hasattr(sides[1], "required_variables"):
            raise InvalidInput(f"the formula {text!r} does not have one attribute before a ~; write 'outcome ~ a + b'")
        return Formula(text, _named(str(factors[0].expr), aliases), sides[1], aliases)

    @property
    def predictors(self) -> tuple[str, ...]:
        """Names on the right-hand side."""
        return tuple(sorted(_named(v, self.aliases) for v in self.right.required_variables if v not in _CALLED))

    @property
    def names(self) -> tuple[str, ...]:
        """All names, the outcome last."""
        return (*(name for name in self.predictors if name != self.outcome), self.outcome)


@dataclass(frozen=True, eq=False)
class Predictors:
    """The right-hand side over the declared attributes that it names.

    ``values`` are (r,) numbers for those that count as numbers, ``spec`` is formulaic's specification of the columns, and
    ``aliases`` are those of the formula.
    """

    domain: Domain
    values: Mapping[str, FloatArray]
    spec: Any
    aliases: Mapping[str, str]

    @staticmethod
    def of(formula: Formula, domain: Domain, scores: Mapping[str, ArrayLike]) -> "Predictors":
        """Bind a formula to the attributes that it names.

        ``scores`` by attribute make categories numeric.

        Raises InvalidInput for an expression that fails, or that depends on other records.
        """
        values = {a.name: number for a in domain if (number := numbers_of(a, scores.get(a.name))) is not None}
        size = max((a.size for a in domain), default=1)
        # every category occurs, so that what formulaic keeps of this frame is the declaration's
        codes = np.stack([np.arange(size) % a.size for a in domain], axis=1) if domain.m else np.zeros((1, 0), np.int64)
        frame = _frame(domain, values, codes).rename(columns=formula.aliases)
        try:
            with _quiet():
                functions = _functions(values, formula.aliases)
                spec = formula.right.get_model_matrix(frame, context=functions, na_action="raise").model_spec
            out = Predictors(domain, values, spec, formula.aliases)
            out._check(formula, codes)
        except InvalidInput:
            raise
        except Exception as error:  # an expression of a formula may raise anything
            missing = any(None in a.codes for a in domain)
            remedy = "; leave out missing values, which are a category here (complete cases)" if missing else ""
            raise InvalidInput(
                f"the formula {formula.text!r} fails on these attributes: {_named(_plain(error), formula.aliases)}{remedy}"
            ) from None
        return out

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(_named(str(self.spec.column_names[c]), self.aliases) for c in self._estimated)

    @cached_property
    def _offsets(self) -> list[int]:
        """Columns of the specification that have the coefficient 1."""
        terms = self.spec.term_indices.items()
        return [c for term, columns in terms if str(term).startswith(_OFFSET) for c in columns]

    @cached_property
    def _estimated(self) -> list[int]:
        """Positions of the columns other than offsets."""
        return [c for c in range(len(self.spec.column_names)) if c not in self._offsets]

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """Terms that have columns, in the order of the columns."""
        out = []
        for term, columns in self.spec.term_indices.items():
            places = tuple(self._estimated.index(c) for c in columns if c in self._estimated)
            if places:
                out.append(Term(_named(str(term), self.aliases), self._used([term]), places))
        return tuple(out)

    @cached_property
    def offset_term(self) -> Term | None:
        """All offsets together; None without offsets."""
        offsets = [term for term in self.spec.term_indices if str(term).startswith(_OFFSET)]
        return Term("offset", self._used(offsets), ()) if offsets else None

    def _used(self, terms: Iterable[Any]) -> tuple[str, ...]:
        """List the attributes that these terms use, in the domain's order."""
        known = {str(v) for v in self.spec.variables_by_source.get("data", ())}
        named = {str(v) for term in terms for v in self.spec.term_variables[term]} & known
        used = {_named(v, self.aliases) for v in named}
        return tuple(n for n in self.domain.names if n in used)

    @property
    def intercept(self) -> int | None:
        """Which column is the constant 1."""
        return next((t.columns[0] for t in self.terms if t.name == "1"), None)

    def at(self, codes: IntArray) -> FloatArray:
        """Compute the columns (N, p) at records (N, m) of codes."""
        return self._matrix(codes)[:, self._estimated]

    def offset(self, codes: IntArray) -> FloatArray:
        """Compute the offset at records (N, m) of codes, (N,)."""
        return np.asarray(self._matrix(codes)[:, self._offsets].sum(axis=1))

    def _matrix(self, codes: IntArray) -> FloatArray:
        with _quiet():
            frame = _frame(self.domain, self.values, codes).rename(columns=self.aliases)
            made = self.spec.get_model_matrix(frame, context=_functions(self.values, self.aliases))
            return np.asarray(made, dtype=np.float64)

    def _check(self, formula: Formula, codes: IntArray) -> None:
        if any(f"{_OFFSET}(" in str(t)[1:] for t in self.spec.term_indices):
            raise InvalidInput(
                f"the formula {formula.text!r}: an offset must be a separate term; write 'y ~ a + offset(b)'"
            )
        whole = self._matrix(codes)
        # records have the columns that they have together also alone, twice and in another order
        both = [(np.concatenate([codes[::-1], codes]), np.concatenate([whole[::-1], whole]))]
        rows = np.unique(np.linspace(0, len(codes) - 1, _ALONE).round().astype(np.int64))
        frames = (*both, *((codes[[i]], whole[[i]]) for i in rows))
        alike = (np.allclose(self._matrix(some), there, rtol=_SAME, atol=0.0, equal_nan=True) for some, there in frames)
        if not all(alike):
            raise _learns(formula.text)
        if not np.isfinite(whole).all():
            raise InvalidInput(
                f"the formula {formula.text!r} is not a finite number for all categories; give other scores"
            )


def _learns(text: str) -> InvalidInput:
    return InvalidInput(
        f"the formula {text!r} has a term that depends on other records (such as center or x.max()), which are randomized; "
        "write the numbers that it means"
    )


def numbers_of(attribute: Attribute, scores: ArrayLike | None) -> FloatArray | None:
    """Return the numbers (r,) of an attribute's categories.

    From scores or from numeric categories; None if it has none.
    """
    return checked_scores(attribute, scores) if scores is not None or has_numbers(attribute) else None


def check_scores(scores: Mapping[str, ArrayLike], names: tuple[str, ...]) -> None:
    """Refuse scores of attributes that the formula has not. Raises InvalidInput."""
    for name in scores:
        if name not in names:
            raise InvalidInput(
                f"``scores``: {name!r} is not in the formula "
                f"({listed(names)}){did_you_mean(name, names) or '; leave its scores out'}"
            )


def _frame(domain: Domain, values: Mapping[str, FloatArray], codes: IntArray) -> "pd.DataFrame":
    import pandas as pd  # noqa: PLC0415 (slow to import, and comes with the extra)

    columns: dict[str, Any] = {}
    for i, attribute in enumerate(domain):
        if attribute.name in values:
            columns[attribute.name] = values[attribute.name][codes[:, i]]
        else:
            labels = list(map(category_word, attribute.texts))
            columns[attribute.name] = pd.Categorical.from_codes(codes[:, i], categories=labels)
    return pd.DataFrame(columns, index=range(len(codes)))


def _functions(values: Mapping[str, FloatArray], aliases: Mapping[str, str]) -> dict[str, Any]:
    """Return the functions of a formula.

    Stateful functions of formulaic learn from the categories' numbers.
    """
    transforms, known = _formulaic().transforms.TRANSFORMS, {aliases.get(name, name): v for name, v in values.items()}

    def numbers(function: str, x: Any) -> FloatArray:
        own = known.get(str(getattr(x, "name", "")))
        if own is None or not np.isin(x, own).all():
            raise InvalidInput(
                f"{function[6:]} takes an attribute whose categories are numbers, as it is; give scores for it"
            )
        return own

    def learned(function: str) -> Any:
        def made(x: Any, *given: Any, **named: Any) -> Any:
            state: dict[str, Any] = {}
            transforms[function[6:]](numbers(function, x), *given, _state=state, **named)
            return transforms[function[6:]](np.asarray(x), *given, _state=state, **named)

        return made

    def offset(x: Any) -> Any:
        numbers(_OFFSET, x)
        return x

    return {_BS: learned(_BS), _POLY: learned(_POLY), _OFFSET: offset}


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence numpy's warnings; values that are not finite are refused by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _aliased(text: str, functions: Collection[str]) -> tuple[str, dict[str, str]]:
    """Replace names that are not valid in Python or in formulaic by aliases."""
    aliases: dict[str, str] = {}

    def alias(found: re.Match[str]) -> str:
        quoted, plain = found[2], found[3]
        if found[1] or (plain and (plain.startswith(_MODULES) or not ("." in plain or plain in functions))):
            return found[0]
        return aliases.setdefault(quoted or plain, f"optrr_{len(aliases)}_")

    return _OURS.sub(r"optrr_\1", _NAMES.sub(alias, text)), aliases


def _named(text: str, aliases: Mapping[str, str]) -> str:
    """Replace aliases by their names."""
    for name, alias in [*aliases.items(), *((called.removeprefix("optrr_"), called) for called in _CALLED)]:
        text = text.replace(alias, name)
    return text


def _formulaic() -> Any:
    try:
        import formulaic  # noqa: PLC0415 (an extra)
        import formulaic.errors  # noqa: PLC0415
        import formulaic.transforms  # noqa: PLC0415
    except ImportError as error:
        raise not_installed(error, "formulas need", "regression") from error
    return formulaic


def _plain(error: Exception) -> str:
    """Convert formulaic's message to one line without terminal colors."""
    return in_one_line(Exception(re.sub(r"\x1b\[[0-9;]*m|[⧛⧚]", "", str(error))))


@dataclass(frozen=True)
class Fit:
    """A model to be fitted.

    ``family``: linear, logistic, ordered, multinomial; ``scores`` (r,) of a linear outcome, else None.
    """

    formula: str
    family: str
    outcome: Attribute
    predictors: Predictors
    scores: FloatArray | None = None

    @property
    def labels(self) -> list[str]:
        """Names of the parameters.

        Thresholds first for ordered outcomes, else the constant, for each category in turn.
        """
        columns = list(self.predictors.labels)
        if self.family == "linear":
            return columns
        if self.family == "multinomial":
            return [f"{category_word(text)}: {columns[c]}" for text in self.outcome.texts[1:] for c in self.columns]
        rest = [label for c, label in enumerate(self.predictors.labels) if c != self.predictors.intercept]
        if self.family == "logistic":
            return ["Intercept", *rest]
        return [
            *(f"{self.outcome.name} >= {category_word(self.outcome.texts[c])}" for c in range(1, self.outcome.size)),
            *rest,
        ]

    @property
    def columns(self) -> list[int]:
        """The columns, the constant first."""
        return sorted(range(len(self.predictors.labels)), key=lambda c: c != self.predictors.intercept)

    def places(self, column: int) -> list[int]:
        """Find the positions of a column's coefficients.

        One, or one for each category except the first.
        """
        if self.family == "multinomial":
            width = len(self.predictors.labels)
            return [j * width + self.columns.index(column) for j in range(self.outcome.size - 1)]
        return [self.labels.index(self.predictors.labels[column])]

    @property
    def thresholds(self) -> int:
        """Number of thresholds of an ordered outcome, which come first."""
        return self.outcome.size - 1 if self.family == "ordered" else 0
