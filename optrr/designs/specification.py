"""Specifications: which attributes, how many categories, and how accurate each must be (TOML, JSON or name=size:epsilon).

    {"attributes": [{"name": "sex", "categories": ["F", "M"], "epsilon": 1.0}, {"name": "age", "size": 9, "epsilon": 0.5}]}

A size stands for the categories 0..size−1; ``bins`` are the edges that make numbers or dates categories (``closed`` "left" or
"right", ``categories`` as labels of one's own); ``ordered`` says that the order of the categories means something;
``missing`` lists the marks of a missing value (``true`` where it is left empty); ``rest`` is the category of everything
undeclared. A top-level ``epsilon`` serves attributes that give none. ``public`` names columns that stand beside the attributes
and are not randomized, as ``weight``, ``stratum``, ``cluster`` or ``group``. What people are asked may stand beside:
``question`` of an attribute; ``title``, ``asker``, ``introduction`` and ``language`` of the whole.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from optrr.designs.proposing import Proposing, propose
from optrr.designs.specification_record import AttributeSpec, Spec, spec_record
from optrr.designs.specification_toml import toml_of
from optrr.domain.bins import Bins, bins_of
from optrr.domain.domain import Attribute, Category, Domain, category_text, numbered, shown
from optrr.domain.public import NONE, PublicColumns
from optrr.errors import InvalidInput, in_one_line, warn
from optrr.releases.small_files import Given, path_of, read_named
from optrr.show.printable import brief
from optrr_solvers.arrays import FloatArray, real
from optrr_solvers.problem import SIZE_RANGE

# Digits of a number that a message shows.
_SHOWN = 24


class Wording(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the people asked are shown: texts in ``language`` (such as ``de``), None where the specification gives none.

    ``asker`` says who asks, ``introduction`` is a paragraph, ``questions`` has the text for an attribute's name; an attribute
    without one is asked by its name.
    """

    title: str | None = None
    asker: str | None = None
    introduction: str | None = None
    language: str | None = None
    questions: dict[str, str] = {}


@dataclass(frozen=True, eq=False)
class Specification:
    """A domain and the requested ε_i in nats, shape (m,); ``nan`` where none was given (allocation fills them in).

    ``public`` are columns that stand beside the attributes and are not randomized.
    """

    domain: Domain
    epsilons: FloatArray
    wording: Wording = field(default_factory=Wording)
    public: PublicColumns = NONE

    def required_epsilons(self) -> FloatArray:
        """The ε_i. Raises InvalidInput naming the first attribute that has none."""
        missing = np.flatnonzero(np.isnan(self.epsilons))
        if missing.size:
            name = self.domain.names[int(missing[0])]
            raise InvalidInput(
                f"attribute {shown(name)} has no epsilon; give it one in nats, or a top-level epsilon for all"
            )
        return self.epsilons

    @classmethod
    def from_frame(cls, data: Any, proposing: Proposing | None = None, epsilon: float | None = None) -> Specification:
        """A specification read off PUBLIC data, a frame or whatever else holds records; see :func:`propose`.

        Never use it on the records to be protected without asking who may see the result: which categories occur, and where
        edges lie, are answers about them that no ε covers. Python warnings (:class:`optrr.OptrrWarning`) say which columns are
        left out and why, and what looks wrong about the values.
        """
        wanted = proposing or Proposing()
        proposal = propose(data, wanted)
        warn(proposal.warnings())
        domain = proposal.domain
        epsilons = np.full(domain.m, np.nan if epsilon is None else _checked_epsilon("all", epsilon))
        return cls(domain, epsilons, public=wanted.public)

    def to_toml(self, notes: Mapping[tuple[str, str], str] | None = None, opening: Sequence[str] = ()) -> str:
        """The specification as TOML; ``notes`` are comments by attribute and key, ``opening`` the lines of a first comment."""
        public = {f"public.{role}": names for role, names in self.public.summary().items()}
        whole = msgspec.to_builtins(self.wording) | public
        return toml_of(self.domain, self.epsilons, whole, notes or {}, opening)

    def proportions(self) -> FloatArray:
        """The ε_i as proportions of a total; all alike where none is given. Raises InvalidInput where only some are."""
        return np.ones(self.domain.m) if np.isnan(self.epsilons).all() else self.required_epsilons()


def read_specification(path: Given) -> Specification:
    """Read a TOML or JSON file, by suffix. Raises InvalidInput with the place in the file and the remedy."""
    source = path_of(path)
    try:
        text = read_named(path, "specification").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"specification {source} is not UTF-8; save it in that encoding") from error
    suffix = source.suffix.lower()
    if suffix not in (".toml", ".json"):
        raise InvalidInput(f"specification {source} ends in {suffix!r}; name it .toml or .json")
    if not text.strip():
        raise InvalidInput(f"specification {source} is empty; list the attributes")
    try:
        raw = tomllib.loads(text) if suffix == ".toml" else json.loads(text, object_pairs_hook=_without_repeats)
        return _specification(spec_record(raw))
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        kind = suffix[1:].upper()
        raise InvalidInput(f"specification {source} is not {kind}: {in_one_line(error)}; mend it there") from error
    except (ValueError, RecursionError) as error:
        # raised by numbers of thousands of digits, by brackets nested thousands deep, and by our own refusals
        raise InvalidInput(f"specification {source}: {in_one_line(error)}") from error


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object; of a key written twice, json would keep the second and say nothing."""
    by_key = dict(pairs)
    if len(by_key) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"the key {shown(twice)} is given twice in one object; keep one")
    return by_key


def parse_attributes(texts: Sequence[str]) -> Specification:
    """Attributes written ``name=size:epsilon`` (``name=size`` where no ε is asked for)."""
    specs = []
    for text in texts:
        name, equals, rest = text.rpartition("=")
        size, _, epsilon = rest.partition(":")
        try:
            # Python would read 1_0 as ten
            if not equals or not name or "_" in rest:
                raise ValueError(text)
            specs.append(AttributeSpec(name, size=int(size), epsilon=float(epsilon) if epsilon else None))
        except ValueError as error:
            raise InvalidInput(
                f"attribute {shown(text)} is not of the form name=size:epsilon, like age=9:0.5"
            ) from error
    return _specification(Spec(specs))


def _specification(spec: Spec) -> Specification:
    attributes, epsilons = [], []
    for a in spec.attributes:
        _checked_text(a.name, a.name)
        attributes.append(_attribute(a))
        given = a.epsilon if a.epsilon is not None else spec.epsilon
        epsilons.append(np.nan if given is None else _checked_epsilon(a.name, given))
    domain, public = Domain(tuple(attributes)), PublicColumns.of(spec.public or {})
    for name in public.names:
        _checked_text(name, name)
    return Specification(domain, np.asarray(epsilons, dtype=np.float64), _wording(spec), public.apart_from(domain))


def _wording(spec: Spec) -> Wording:
    questions = {a.name: a.question for a in spec.attributes if a.question is not None}
    general = {name: getattr(spec, name) for name in ("title", "asker", "introduction", "language")}
    asked = {f"the question of {shown(name)}": text for name, text in questions.items()}
    for place, text in {**general, **asked}.items():
        if text is not None and (not text.strip() or not _is_unicode(text)):
            raise InvalidInput(f"{place} is {shown(text)}; write a text in UTF-8, or leave it out")
    return Wording(**general, questions=questions)


def _checked_text(name: str, text: Category) -> None:
    # JSON and the command line can hold halves of surrogate pairs, which no file can be written with
    if isinstance(text, str) and not _is_unicode(text):
        raise InvalidInput(f"attribute {shown(name)} has text {shown(text)}, which is not Unicode; write it in UTF-8")


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _checked_epsilon(name: str, epsilon: float) -> float:
    # nan stands for "not given" from here on, so a written nan must not pass
    number = real(epsilon)
    if not (math.isfinite(number) and number > 0):
        raise InvalidInput(
            f"attribute {shown(name)} has epsilon {brief(epsilon)}; give a finite number of nats above 0"
        )
    return number


def _attribute(spec: AttributeSpec) -> Attribute:
    bins = None if spec.bins is None else bins_of(spec.bins, spec.closed)
    marks = () if isinstance(spec.missing, bool) else tuple(str(category_text(m)) for m in spec.missing)
    categories = _categories(spec, bins)
    if spec.missing is True and None not in categories:
        categories = (*categories, None) if spec.size is None else numbered(spec.size, missing=True)
    return Attribute(spec.name, categories, spec.ordered or bins is not None, bins, marks, spec.rest)


def _categories(spec: AttributeSpec, bins: Bins | None) -> tuple[Category, ...]:
    given = [key for key in ("size", "categories", "bins") if getattr(spec, key) is not None]
    if given not in (["size"], ["categories"], ["bins"], ["categories", "bins"]):
        raise InvalidInput(
            f"attribute {shown(spec.name)} must give either its size or its categories, or bins for numbers and dates"
        )
    if spec.categories is not None:
        for c in spec.categories:
            _checked_text(spec.name, c)
        return tuple(spec.categories)
    if bins is not None:
        return bins.labels
    assert spec.size is not None
    if not SIZE_RANGE[0] <= spec.size <= SIZE_RANGE[1]:
        raise InvalidInput(
            f"attribute {shown(spec.name)} has size {str(spec.size)[:_SHOWN]}; a size is a whole number from "
            f"{SIZE_RANGE[0]} to {SIZE_RANGE[1]}"
        )
    return numbered(spec.size)
