"""Specifications: which attributes, how many categories, and how accurate each must be (TOML, JSON or name=size:epsilon).

    {"attributes": [{"name": "sex", "categories": ["F", "M"], "epsilon": 1.0}, {"name": "age", "size": 9, "epsilon": 0.5}]}

A size means the categories 0..size−1; ``bins`` are the edges that make numbers or dates categories (``closed`` "left"
or "right", ``categories`` as custom labels); ``ordered`` states that the order of the categories is meaningful;
``missing`` lists the marks of a missing value (``true`` where it is left empty); ``rest`` is the category of everything
undeclared; ``multi_select`` is a column with several answers, their separator, and the option of this attribute. A
top-level ``epsilon`` serves attributes that give none. ``public`` names non-randomized columns beside the attributes,
as ``weight``, ``stratum``, ``cluster`` or ``group``. The texts for respondents may be given as well, each in one
``language`` or as a table by language: ``question`` and ``labels`` (of the categories) of an attribute; ``title``,
``asker``, ``introduction`` and ``thanks`` of the whole; ``columns`` with the questions of columns with several answers.
``ask_if`` asks an attribute only after certain earlier answers (:mod:`optrr.core.design.wording`).

The types of :class:`Spec` define the content of a file; messages name the attribute and the key.
"""

import codecs
import json
import math
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from optrr.core.design.infer import Proposal, Proposing, propose
from optrr.core.design.wording import NOT_ASKED, WHOLE_TEXTS, Branch, Labels, Text, Wording, branch_of, is_unicode
from optrr.core.display.text import brief, one_line, prints
from optrr.core.domain.bins import Bins, Closed, bins_of
from optrr.core.domain.domain import NO_YES, Attribute, Category, Domain, MultiSelect, category_text, shown
from optrr.core.domain.public import NONE, PublicColumns
from optrr.core.errors import InvalidInput, did_you_mean, in_one_line, warn
from optrr.core.provenance.sealed import Given, path_of, read_named
from optrr_solvers.arrays import FloatArray, real
from optrr_solvers.problem import SIZE_RANGE


class AttributeSpec(msgspec.Struct, forbid_unknown_fields=True):
    """One attribute, as in the file."""

    name: str
    size: int | None = None
    categories: list[Category] | None = None
    epsilon: float | None = None
    question: Text | None = None
    labels: Labels | None = None
    ask_if: dict[str, list[Category]] | None = None
    not_asked: str | None = None
    bins: list[Any] | None = None
    closed: Closed = "left"
    ordered: bool = False
    missing: list[str | int | float] | bool = False
    rest: str | None = None
    multi_select: MultiSelect | None = None


class Spec(msgspec.Struct, forbid_unknown_fields=True):
    """Content of a specification file."""

    attributes: list[AttributeSpec]
    epsilon: float | None = None
    language: str | None = None
    title: Text | None = None
    asker: Text | None = None
    introduction: Text | None = None
    thanks: Text | None = None
    columns: dict[str, Text] | None = None
    public: dict[str, Any] | None = None


# Points in a key, which the TOML reader takes the square of in time and memory, and what ends a key.
_MOST_PARTS, _BETWEEN_KEYS = 300, re.compile(r"[,=\[\]{}\n]")
# The first key of a plan, which has attributes, too.
_PLAN = re.compile(rb'\s*format\s*=\s*"optrr-plan/')
# A line of TOML with which attributes begin.
_TOML_ATTRIBUTES = re.compile(rb"^[ \t]*(\[\[[ \t]*attributes[ \t]*\]\]|attributes[ \t]*=)", re.MULTILINE)


def refuse_specification(raw: bytes, source: Given, command: str = "design {} -o {}") -> None:
    """Raise InvalidInput if a specification was given in place of a design.

    ``command`` makes the design that is wanted of a file, in another.
    """
    # A stranger's file is not parsed to find this out: a TOML key of a hundred thousand parts would take gigabytes.
    text = raw.removeprefix(codecs.BOM_UTF8)
    if _PLAN.match(text):
        raise InvalidInput(f"{source} is a plan; give the design that was saved with it, design.json in its folder")
    try:
        outline = msgspec.json.decode(text, type=_Outline)
        mistaken = outline.format is msgspec.UNSET and outline.law is msgspec.UNSET
    except (ValueError, RecursionError):
        mistaken = not text.lstrip().startswith(b"{") and _TOML_ATTRIBUTES.search(text) is not None
    if mistaken:
        made = "design.json" if path_of(source).name != "design.json" else "made.json"
        remedy = command.format(shlex.quote(str(source)), made)
        raise InvalidInput(f"{source} is a specification, not yet a design: optrr {remedy} makes one")


class _Outline(msgspec.Struct):
    """Keys of a specification and of files made from one; values are ignored."""

    attributes: msgspec.Raw
    format: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    law: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


# Elements of a list that fit a line; longer ones get a line each.
_SHORT = 8
# Number of categories 0..r−1 above which only their size is written, with the remarks to confirm.
_NOTED = {"size": "categories"}


def _fields(attribute: Attribute) -> dict[str, Any]:
    """Return the keys of an attribute, without those implied by others."""
    out: dict[str, Any] = {"name": attribute.name}
    bins, numbers = attribute.bins, attribute.numbers
    known = range(numbers) if numbers is not None else [c for c in attribute.categories if c is not None]
    if bins is not None:
        out["bins"] = [e if isinstance(e, date) or math.isinf(e) or not e.is_integer() else int(e) for e in bins.edges]
        if bins.closed != "left":
            out["closed"] = bins.closed
    if attribute.multi_select is not None:
        out["multi_select"] = list(attribute.multi_select)
    elif bins is None and numbers is not None and numbers > _SHORT:
        out["size"] = numbers
    elif bins is None or list(known) != list(bins.labels):
        out["categories"] = list(known)
    if attribute.ordered and bins is None:
        out["ordered"] = True
    if len(known) < attribute.size:
        out["missing"] = list(attribute.missing) or True
    if attribute.rest is not None:
        out["rest"] = attribute.rest
    return out


def _plain(value: Any) -> Any:
    """Convert dates and infinite edges, which JSON lacks, to texts."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def toml_entry(key: str, value: Any, note: str | None) -> str:
    """Format an entry in one line, or in several for a long list."""
    comment = "" if note is None else f" # {one_line(note)}"
    if not isinstance(value, list):
        return f"{key} = {toml_value(value)}{comment}"
    texts = [toml_value(v) for v in value]
    if len(texts) <= _SHORT:
        return f"{key} = [{', '.join(texts)}]{comment}"
    return "\n".join([f"{key} = [", *(f"    {text}," for text in texts), f"]{comment}"])


def toml_value(value: Any) -> str:
    """Format texts and booleans as JSON, numbers and dates as Python, lists and tables in one line.

    TOML reads both alike.
    """
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_toml_key(k)} = {toml_value(v)}' for k, v in value.items())}}}"
    text = repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
    # in such strings an escape means the same as an invisible character
    return text if text.isprintable() else "".join(c if prints(c) else f"\\U{ord(c):08x}" for c in text)


def _toml_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else toml_value(key)


def toml_text(content: Mapping[str, Any], place: tuple[str, ...] = ()) -> str:
    """Format plain values as TOML, in their order.

    A mapping becomes a table, and a list of mappings one table each; these come after all other values, as TOML
    requires. Other lists hold plain values, or lists of texts.
    """
    lines, tables = [], []
    for key, value in content.items():
        inside = (*place, _toml_key(key))
        if isinstance(value, Mapping):
            tables.append(f"\n[{'.'.join(inside)}]\n{toml_text(value, inside)}")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            tables += [f"\n[[{'.'.join(inside)}]]\n{toml_text(each, inside)}" for each in value]
        else:
            lines.append(f"{toml_entry(inside[-1], value, None)}\n")
    return "".join(lines + tables)


# Keys that TOML reads without quotes.
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# Digits of a number that a message shows.
_SHOWN = 24


@dataclass(frozen=True, eq=False)
class Specification:
    """A domain and the requested ε_i in nats, shape (m,).

    ``nan`` if not given (allocation fills them in).

    ``public`` are non-randomized columns beside the attributes. ``branches`` are the conditions of questions, by the
    attribute's name.

    Examples
    --------
    >>> import optrr
    >>> wanted = optrr.Specification.of({"sex": ["F", "M"], "age": 3})
    >>> wanted.domain.names
    ('sex', 'age')
    """

    domain: Domain
    epsilons: FloatArray
    wording: Wording = field(default_factory=Wording)
    public: PublicColumns = NONE
    branches: Mapping[str, Branch] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Any) -> "Specification":
        """Convert a file, its content or a domain to a specification.

        A domain has no ε. Raises InvalidInput.
        """
        if isinstance(given, Specification):
            return given
        if isinstance(given, str | Path):
            return read_specification(given)
        listed = given.get("attributes") if isinstance(given, Mapping) else None
        if isinstance(listed, list | tuple) and all(isinstance(each, Mapping) for each in listed):
            return declared({**given, "attributes": list(listed)})
        domain = Domain.of(given)
        return cls(domain, np.full(domain.m, np.nan))

    def required_epsilons(self) -> FloatArray:
        """Return the ε_i; raise InvalidInput naming the first attribute without one."""
        missing = np.flatnonzero(np.isnan(self.epsilons))
        if missing.size:
            first = self.domain.attributes[int(missing[0])]
            example = shown(f"{first.name}={first.size}:1")
            raise InvalidInput(
                f"attribute {shown(first.name)} has no epsilon; give it one in nats, as {example} or in the specification"
            )
        return self.epsilons

    @classmethod
    def from_frame(cls, data: Any, proposing: Proposing | None = None, epsilon: float | None = None) -> "Specification":
        """Infer a specification from PUBLIC data; see :func:`propose`.

        The data is a frame or another source of records.

        Use it on protected records only if you control who sees the result: the occurring categories and the edges are
        facts about the records that no ε covers. Python warnings (:class:`optrr.OptrrWarning`) list the columns that
        are left out, with the reason, and suspicious values.
        """
        proposal = propose(data, proposing or Proposing())
        warn(proposal.warnings)
        return cls.proposed(proposal, epsilon)

    @classmethod
    def proposed(cls, proposal: Proposal, epsilon: float | None = None) -> "Specification":
        """Build the specification of a proposal with one ε, in nats, for all."""
        epsilons = np.full(proposal.domain.m, np.nan if epsilon is None else _checked_epsilon("``epsilon``", epsilon))
        return cls(proposal.domain, epsilons, public=proposal.public)

    def to_toml(self, notes: Mapping[tuple[str, str], str] | None = None, opening: Sequence[str] = ()) -> str:
        """Format the specification as TOML.

        ``notes`` are comments by (attribute, key), "" for the whole; ``opening`` comes first.

        Linear in the number of categories; libraries that keep a document's layout take minutes for 200,000 of them.
        """
        epsilons = self.epsilons
        common = float(epsilons[0]) if epsilons.size and (epsilons == epsilons[0]).all() else None
        lines = [f"# {one_line(line)}" for line in opening]
        whole = {"epsilon": common} | self._whole_texts()
        whole |= {f"public.{role}": names for role, names in self.public.summary().items()}
        known = notes or {}
        lines += [toml_entry(key, value, known.get(("", key))) for key, value in whole.items() if value is not None]
        for attribute, epsilon in zip(self.domain, epsilons.tolist(), strict=True):
            fields = _fields(attribute)
            if common is None and not math.isnan(epsilon):
                fields["epsilon"] = epsilon
            fields |= self._texts_of(attribute.name)
            lines += ["", "[[attributes]]"] if lines else ["[[attributes]]"]
            lines += [toml_entry(k, v, known.get((attribute.name, _NOTED.get(k, k)))) for k, v in fields.items()]
        return "\n".join([*lines, ""])

    def record(self) -> dict[str, Any]:
        """Return plain values for JSON and TOML, as :func:`declared` reads them.

        Omitted keys stay omitted.
        """
        attributes = [
            {key: _plain(value) for key, value in _fields(a).items()}
            | ({} if math.isnan(e) else {"epsilon": e})
            | self._texts_of(a.name)
            for a, e in zip(self.domain, self.epsilons.tolist(), strict=True)
        ]
        public = self.public.summary()
        return self._whole_texts() | ({"public": public} if public else {}) | {"attributes": attributes}

    def _whole_texts(self) -> dict[str, Any]:
        texts: dict[str, Any] = msgspec.to_builtins(self.wording)
        return {key: text for key, text in texts.items() if key not in ("questions", "labels")}

    def _texts_of(self, name: str) -> dict[str, Any]:
        """Return the keys of an attribute's texts and condition."""
        branch = self.branches.get(name)
        out = {
            "question": self.wording.questions.get(name),
            "labels": self.wording.labels.get(name),
            "ask_if": branch and {parent: list(texts) for parent, texts in branch.when.items()},
            "not_asked": branch and branch.otherwise if branch and branch.otherwise != NOT_ASKED else None,
        }
        return {key: value for key, value in out.items() if value is not None}

    def proportions(self) -> FloatArray:
        """Return the ε_i as proportions of a total; all equal if none is given.

        Raises InvalidInput if only some are given.
        """
        return np.ones(self.domain.m) if np.isnan(self.epsilons).all() else self.required_epsilons()


# What declares attributes: a specification, its file, a domain, or a mapping of names to categories or sizes.
Declared = Specification | Domain | str | Path | Mapping[str, Any]


def read_specification(path: Given) -> Specification:
    """Read a TOML or JSON file, by suffix.

    Raises InvalidInput with the place in the file and the remedy.

    Examples
    --------
    >>> import optrr, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "survey.json")
    >>> _ = path.write_text('{"epsilon": 1, "attributes": [{"name": "sex", "categories": ["F", "M"]}]}')
    >>> optrr.read_specification(path).epsilons.tolist()
    [1.0]
    """
    raw = read_declared(path, "specification", "attributes")
    if isinstance(raw, Mapping) and str(form := raw.get("format")).startswith("optrr-"):
        raise InvalidInput(
            f"specification {path_of(path)}: it is a file of {shown(str(form))}; give a specification, such as a "
            "plan's specification.toml"
        )
    try:
        return declared(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"specification {path_of(path)}: {in_one_line(error)}") from error


def declared(raw: Any) -> Specification:
    """Build the specification that a file's content declares.

    Raises InvalidInput naming the attribute and the key, with the key that was probably meant.
    """
    try:
        spec = msgspec.convert(raw, Spec)
    except msgspec.ValidationError as error:
        raise InvalidInput(_in_words(error, raw)) from error
    return _specification(spec)


# Messages of the schema library: the problem and its place, and unknown keys.
_AT = re.compile(r" - at `\$(?:\.attributes\[(\d+)\])?\.?(.*)`$")
_UNKNOWN_KEY = re.compile(r"Object contains unknown field `(.*)`")
_MISSING_KEY = re.compile(r"Object missing required field `(.*)`")
_WRONG_KIND = re.compile(r"Expected `(.*)`, got `(.*)`")
_KINDS = {
    "str": "a text in quotes",
    "int": "a whole number without quotes",
    "float": "a number without quotes, such as 1.0",
    "bool": "true or false",
    "array": "a list in brackets",
    "object": "keys with their values",
}


def _in_words(error: msgspec.ValidationError, raw: Any) -> str:
    """Describe an error with the attribute's name and the probable key."""
    said, place = str(error), "the specification"
    keys = Spec.__struct_fields__
    if at := _AT.search(said):
        said = said[: at.start()]
        if at[1] is not None:
            given, keys = raw["attributes"][int(at[1])], AttributeSpec.__struct_fields__
            name = given.get("name") if isinstance(given, Mapping) else None
            place = f"attribute {shown(name)}" if isinstance(name, str) else f"attribute {int(at[1]) + 1}"
        place += f", {at[2]}" if at[2] else ""
    if unknown := _UNKNOWN_KEY.match(said):
        hint = did_you_mean(unknown[1], keys) or f"; the keys are {', '.join(keys)}"
        said = f"it has the unknown key {shown(unknown[1])}{hint}"
    elif missing := _MISSING_KEY.match(said):
        said = f"it has no key {shown(missing[1])}; add it"
    elif wrong := _WRONG_KIND.match(said):
        kinds = [_KINDS.get(kind, kind) for kind in wrong[1].split(" | ") if kind != "null"]
        said = f"it is of type {wrong[2]}; give {' or '.join(kinds)}"
    return f"{place}: {in_one_line(said)}"


def read_declared(path: Given, what: str, parts: str) -> Any:
    """Read the declarations of a TOML or JSON file, by suffix.

    ``what`` and ``parts`` describe it in messages.

    Raises InvalidInput with the place in the file and the remedy, where it is neither, empty, not UTF-8, or has a key twice.
    """
    source = path_of(path)
    try:
        text = read_named(path, what).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{what} {source} is not UTF-8; save it in that encoding") from error
    suffix = source.suffix.lower()
    if suffix not in (".toml", ".json"):
        raise InvalidInput(f"{what} {source} ends in {suffix!r}; name it .toml or .json")
    if not text.strip():
        raise InvalidInput(f"{what} {source} is empty; list the {parts}")
    if suffix == ".toml" and max(piece.count(".") for piece in _BETWEEN_KEYS.split(text)) > _MOST_PARTS:
        raise InvalidInput(f"{what} {source} has a key or a text of more than {_MOST_PARTS} points; correct it there")
    try:
        return tomllib.loads(text) if suffix == ".toml" else json.loads(text, object_pairs_hook=_without_repeats)
    except InvalidInput as error:
        raise InvalidInput(f"{what} {source}: {error}") from error
    except (ValueError, RecursionError) as error:
        # raised by malformed text, by numbers of thousands of digits, and by brackets nested thousands deep
        raise InvalidInput(
            f"{what} {source} is not {suffix[1:].upper()}: {in_one_line(error)}; correct it there"
        ) from error


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build a JSON object; refuse repeated keys, which json would overwrite."""
    by_key = dict(pairs)
    if len(by_key) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise InvalidInput(f"the key {shown(twice)} is given twice in one object; keep one")
    return by_key


def parse_attributes(texts: Sequence[str]) -> Specification:
    """Parse attributes written ``name=size:epsilon``, or ``name=size``."""
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
        epsilons.append(np.nan if given is None else _checked_epsilon(f"attribute {shown(a.name)}, epsilon", given))
    domain, public = Domain(tuple(attributes)), PublicColumns.of(spec.public or {})
    for name in public.names:
        _checked_text(name, name)
    general = {name: getattr(spec, name) for name in ("language", *WHOLE_TEXTS)}
    questions = {a.name: a.question for a in spec.attributes if a.question is not None}
    wording = Wording(
        **general,
        questions=questions,
        labels={a.name: a.labels for a in spec.attributes if a.labels is not None},
        columns=spec.columns or {},
    )
    wording.check(domain)
    return Specification(
        domain, np.asarray(epsilons, dtype=np.float64), wording, public.apart_from(domain), _branches(spec, domain)
    )


def _branches(spec: Spec, domain: Domain) -> dict[str, Branch]:
    branches, earlier = {}, dict[str, Attribute]()
    for a, attribute in zip(spec.attributes, domain, strict=True):
        if a.ask_if is not None:
            branches[a.name] = branch_of(
                attribute, earlier, a.ask_if, NOT_ASKED if a.not_asked is None else a.not_asked
            )
        elif a.not_asked is not None:
            raise InvalidInput(f"attribute {shown(a.name)}, not_asked: there is no ask_if; add it, or remove not_asked")
        earlier[a.name] = attribute
    return branches


def _checked_text(name: str, text: Category) -> None:
    # JSON and the command line can hold halves of surrogate pairs, which no file can be written with
    if isinstance(text, str) and not is_unicode(text):
        raise InvalidInput(f"attribute {shown(name)} has text {shown(text)}, which is not Unicode; write it in UTF-8")


def _checked_epsilon(place: str, epsilon: float) -> float:
    # nan stands for "not given" from here on, so a written nan must not pass
    number = real(epsilon)
    if not (math.isfinite(number) and number > 0):
        raise InvalidInput(f"{place} {brief(epsilon)}: not a finite number of nats above 0; give one such as 1.0")
    return number


def _attribute(spec: AttributeSpec) -> Attribute:
    bins = None if spec.bins is None else bins_of(spec.bins, spec.closed)
    marks = () if isinstance(spec.missing, bool) else tuple(str(category_text(m)) for m in spec.missing)
    categories = _categories(spec, bins)
    if spec.missing is True and None not in categories:
        categories = (*categories, None)
    ordered = spec.ordered or bins is not None
    return Attribute(spec.name, categories, ordered, bins, marks, spec.rest, multi_select=spec.multi_select)


def _categories(spec: AttributeSpec, bins: Bins | None) -> tuple[Category, ...]:
    given = [key for key in ("size", "categories", "bins", "multi_select") if getattr(spec, key) is not None]
    if given == ["multi_select"]:
        return NO_YES
    if given not in (["size"], ["categories"], ["bins"], ["categories", "bins"]):
        raise InvalidInput(
            f"attribute {shown(spec.name)} must give either its size, or categories, bins of numbers or dates, or multi_select"
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
    return tuple(range(spec.size))
