"""Files and records that a client must refuse (``docs/deployment-format.md``, §5): each with one thing wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

from optrr.devices.deployment_file import canonical, digest_of

Content = dict[str, Any]


def refused_files(base: Content) -> list[dict[str, str]]:
    """``why`` and ``text`` of files, from one with a choice and second ways to change."""
    text = canonical(base).decode()
    return [{"why": why, "text": bad} for why, bad in _texts(text)] + _spoilt(base, _SPOILS)


def refused_questions(base: Content) -> list[dict[str, str]]:
    """The same, from a file of questions, the first of two attributes with four and three categories."""
    return _spoilt(base, _QUESTIONS, "questions: ")


def refused_trials(base: Content) -> list[dict[str, str]]:
    """The same, from a file of trials."""
    return _spoilt(base, _TRIALS, "trials: ")


def _spoilt(base: Content, spoils: dict[str, Callable[[Content], None]], prefix: str = "") -> list[dict[str, str]]:
    """The file with each one thing wrong, and a digest that fits."""
    files = []
    for why, spoil in spoils.items():
        content = copy.deepcopy(base)
        spoil(content)
        text = canonical(content | {"digest": digest_of(content)}).decode()
        files.append({"why": prefix + why, "text": text})
    return files


def refused_records(base: Content) -> dict[str, Any]:
    """Answers that a client must refuse for one deployment."""
    good = {a["name"]: a["categories"][0] for a in base["attributes"]}
    first = base["attributes"][0]["name"]
    missing = {k: v for k, v in good.items() if k != first}
    records = [
        {"why": "an answer is missing", "record": missing},
        {"why": "an attribute that the file does not have", "record": good | {"other": "1"}},
        {"why": "an undeclared category", "record": good | {first: "not declared"}},
        {"why": "missing where it is not declared", "record": good | {first: None}},
        {"why": "a list", "record": good | {first: ["0"]}},
        {"why": "no record", "record": None},
        {"why": "a list of answers", "record": list(good.values())},
        {"why": "a text that holds the attributes' names", "record": " ".join(good)},
        {"why": "a number", "record": len(good)},
    ]
    return {"about": "A client refuses these records.", "deployment": canonical(base).decode(), "records": records}


def _texts(text: str) -> Iterator[tuple[str, str]]:
    yield "not JSON", text[:-1]
    yield "empty", ""
    yield "white space", text.replace(":", ": ", 1)
    yield "two line feeds", text + "\n\n"
    yield "another object follows", text + text
    yield "keys out of order", json.dumps(dict(reversed(json.loads(text).items())), separators=(",", ":"))
    yield "a repeated key", text.replace('{"attributes"', '{"attributes":[],"attributes"', 1)
    yield "an integer with a fraction", text.replace('"bits":64', '"bits":64.0')
    yield "an integer with an exponent", text.replace('"bits":64', '"bits":6.4e1')
    yield "an escape where none belongs", text.replace('"format"', '"f\\u006frmat"')
    yield "an unpaired surrogate", text.replace('"name":"a1"', '"name":"\\ud800"')
    yield "a byte order mark", "\ufeff" + text
    yield "another digest", text.replace('"digest":"', '"digest":"0')
    yield "changed without its digest", text.replace('"name":"a1"', '"name":"b1"')
    yield "a list", f"[{text}]"


def _set(path: tuple[str | int, ...], value: Any) -> Callable[[Content], None]:
    def spoil(content: Content) -> None:
        at: Any = content
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value(at[path[-1]]) if callable(value) else value

    return spoil


def _drop(*path: str | int) -> Callable[[Content], None]:
    def spoil(content: Content) -> None:
        at: Any = content
        for key in path[:-1]:
            at = at[key]
        del at[path[-1]]

    return spoil


def _lower_total(content: Content) -> None:
    """A total that understates the truth, with conditional ε below it."""
    epsilon = content["epsilon"]
    epsilon["total"] = f"{float(epsilon['total']) * 0.9:.15f}"
    epsilon["conditional"] = [epsilon["total"]] * len(epsilon["conditional"])


def _huge(content: Content) -> None:
    content["layers"][1]["kept"][0] = 1 << 60


def _second_at_first(content: Content) -> None:
    layer = content["layers"][1]
    layer["second_threshold"] = layer["threshold"]


def _joined(content: Content) -> None:
    """One key where two belong: joined by commas, all keys read as they should."""
    layer = content["layers"][1]
    layer["attribute,changed"] = [layer.pop("attribute"), layer.pop("changed")]


def _numbered(values: list[Any]) -> Content:
    """A list as an object: places have the same values."""
    return {str(i): value for i, value in enumerate(values)}


# Layer 0 of the base is a choice of two, layer 1 a change with two states and a second way to change, layer 2 the last.
_SPOILS: dict[str, Callable[[Content], None]] = {
    "an unknown version": _set(("format",), "optrr-deployment/2"),
    "a key too many": _set(("seed",), 1),
    "a key too many in an attribute": _set(("attributes", 0, "size"), 2),
    "a key too many in a layer": _set(("layers", 1, "next"), [0]),
    "a key too many in epsilon": _set(("epsilon", "delta"), "0"),
    "no software": _drop("software"),
    "no design": _drop("design"),
    "no conditional epsilon": _drop("epsilon", "conditional"),
    "a layer without states that follow a change": _drop("layers", 1, "changed"),
    "bits as text": _set(("bits",), "64"),
    "bits that are no multiple of 64": _set(("bits",), 32),
    "no bits": _set(("bits",), 0),
    "more bits than the format has": _set(("bits",), 6208),
    "a design that is no digest": _set(("design",), lambda x: x.upper() if x != x.upper() else x[1:]),
    "two attributes of one name": _set(("attributes", 1, "name"), "Größe"),
    "an attribute without a name": _set(("attributes", 1, "name"), ""),
    "one category": _set(("attributes", 0, "categories"), ["0"]),
    "two equal categories": _set(("attributes", 0, "categories", 1), "0"),
    "a category that is a number": _set(("attributes", 0, "categories", 1), 1),
    "an attribute without a layer": _set(("attributes",), lambda x: [*x, {"name": "x", "categories": ["0", "1"]}]),
    "an attribute with two layers": _set(("layers",), lambda x: [*x, {"kind": "uniform", "attribute": 0, "next": [0]}]),
    "an attribute number out of range": _set(("layers", 1, "attribute"), 2),
    "an attribute visited twice": _set(("layers", 1, "attribute"), lambda x: 1 - x),
    "an unknown kind of layer": _set(("layers", 1, "kind"), "maybe"),
    "a kind in a list": _set(("layers", 1, "kind"), lambda x: [x]),
    "two keys in one": _joined,
    "layers as an object": _set(("layers",), _numbered),
    "next states as an object": _set(("layers", 1, "kept"), _numbered),
    "categories as an object": _set(("attributes", 0, "categories"), _numbered),
    "categories as text": _set(("attributes", 0, "categories"), "01"),
    "no layers": _set(("layers",), []),
    "a layer too few": _set(("layers",), lambda x: x[:-1]),
    "a threshold of 0": _set(("layers", 1, "threshold"), lambda x: "0" * 16 + x[16:]),
    "upper-case digits": _set(("layers", 1, "threshold"), lambda x: "A" + x[1:]),
    "digits that are none": _set(("layers", 1, "threshold"), lambda x: "g" + x[1:]),
    "a digit too few": _set(("layers", 1, "threshold"), lambda x: x[1:]),
    "a threshold too few": _set(("layers", 1, "threshold"), lambda x: x[16:]),
    "a next state too many": _set(("layers", 1, "kept"), lambda x: [*x, 0]),
    "a next state that does not exist": _set(("layers", 1, "kept", 0), 1000),
    "a negative next state": _set(("layers", 1, "changed", 0), -1),
    "a next state beyond 53 bits": _huge,
    "a next state that is true": _set(("layers", 1, "kept", 0), True),
    "a state other than 0 after the last layer": _set(("layers", -1, "kept", 0), 1),
    "a second threshold of 0": _set(("layers", 1, "second_threshold"), lambda x: "0" * 16 + x[16:]),
    "a second threshold that is not below the first": _second_at_first,
    "a second way without its threshold": _drop("layers", 1, "second_threshold"),
    "a second threshold without its way": _drop("layers", 1, "second"),
    "a second way that is null": _set(("layers", 1, "second"), None),
    "a second way that does not exist": _set(("layers", 1, "second", 0), 99),
    "ends that do not increase": _set(("layers", 0), {"kind": "choice", "ends": "8" * 32, "next": [0, 0, 1]}),
    "an end of 0": _set(("layers", 0, "ends"), lambda x: "0" * 16),
    "an end too many": _set(("layers", 0, "ends"), lambda x: x + "f" * 16),
    "a component that leads nowhere": _set(("layers", 0, "next", 0), 9),
    "a choice at the end": _set(("layers",), lambda x: [*x, {"kind": "choice", "ends": "", "next": [0]}]),
    "two states before the first layer": _set(("layers",), lambda x: x[1:]),
    "a total below the truth": _lower_total,
    "a negative total": _set(("epsilon", "total"), lambda x: "-" + x),
    "a total with too few places": _set(("epsilon", "total"), lambda x: x[:-1]),
    "a total that is a number": _set(("epsilon", "total"), 3),
    "a total in another form": _set(("epsilon", "total"), lambda x: "0" + x),
    "a negative conditional epsilon": _set(("epsilon", "conditional", 0), "-1.000000000000000"),
    "a conditional epsilon of -0": _set(("epsilon", "conditional", 0), "-0.000000000000000"),
    "a conditional epsilon above the total": _set(("epsilon", "conditional", 0), "99.000000000000000"),
    "an attribute's epsilon missing": _set(("epsilon", "attributes"), lambda x: x[1:]),
}


def _lower_questions(content: Content) -> None:
    content["epsilon"]["total"] = f"{float(content['epsilon']['total']) * 0.9:.15f}"


def _sharper(content: Content) -> None:
    """Half the chance of an unlikely pattern, under the label of before."""
    question = content["questions"][0]
    question["threshold"] = f"{int(question['threshold'], 16) // 2:016x}"


def _many_subsets(content: Content) -> None:
    """Thirteen attributes, each with a subset of its own."""
    content["attributes"] = [{"name": f"b{i}", "categories": ["0", "1"]} for i in range(13)]
    content["questions"][1]["attributes"] = [0]
    content["questions"][0] |= {"attributes": list(range(13)), "subset_sizes": [1] * 13, "likely": [1]}


def _many_cells(content: Content) -> None:
    """One subset of more cells than a report names."""
    content["attributes"] = [{"name": f"b{i}", "categories": [str(k) for k in range(41)]} for i in range(3)]
    content["questions"][0] |= {"attributes": [0, 1, 2], "subset_sizes": [2], "likely": [1]}


_QUESTIONS: dict[str, Callable[[Content], None]] = {
    "layers beside them": _set(("layers",), []),
    "a key too many": _set(("questions", 0, "share"), 1),
    "a key too many in epsilon": _set(("epsilon", "conditional"), []),
    "no ends": _drop("ends"),
    "no threshold": _drop("questions", 0, "threshold"),
    "none": _set(("questions",), []),
    "an object": _set(("questions",), _numbered),
    "a question in a list": _set(("questions", 0), lambda x: [x]),
    "an end too few": _set(("ends",), ""),
    "an end too many": _set(("ends",), lambda x: x + "f" * 16),
    "an end of 0": _set(("ends",), "0" * 16),
    "ends that do not increase": lambda c: c.update(ends=c["ends"] * 2, questions=[*c["questions"], c["questions"][1]]),
    "a threshold of 0": _set(("questions", 0, "threshold"), "0" * 16),
    "upper-case digits": _set(("questions", 0, "threshold"), lambda x: "A" + x[1:]),
    "a digit too few": _set(("questions", 0, "threshold"), lambda x: x[1:]),
    "a threshold that is a number": _set(("questions", 0, "threshold"), 5),
    "no attributes": _set(("questions", 0, "attributes"), []),
    "an attribute twice": _set(("questions", 0, "attributes"), [0, 0]),
    "an attribute that the file does not have": _set(("questions", 0, "attributes"), [0, 2]),
    "a negative attribute": _set(("questions", 0, "attributes"), [0, -1]),
    "an attribute that is true": _set(("questions", 0, "attributes"), [0, True]),
    "attributes as text": _set(("questions", 0, "attributes"), "01"),
    "attributes as an object": _set(("questions", 0, "attributes"), _numbered),
    "a subset too many": _set(("questions", 0, "subset_sizes"), [1, 1, 1]),
    "no subset": _set(("questions", 0, "subset_sizes"), []),
    "a subset of nothing": _set(("questions", 0, "subset_sizes", 0), 0),
    "a subset of all categories": _set(("questions", 0, "subset_sizes", 1), 3),
    "a subset of all cells": _set(("questions", 0), lambda x: {**x, "subset_sizes": [12], "likely": [1]}),
    "a size that is text": _set(("questions", 0, "subset_sizes", 0), "2"),
    "a size beyond 53 bits": _set(("questions", 0, "subset_sizes", 0), 1 << 60),
    "no likely pattern": _set(("questions", 0, "likely"), []),
    "all patterns likely": _set(("questions", 0, "likely"), [0, 1, 2, 3]),
    "a pattern that does not exist": _set(("questions", 0, "likely"), [1, 4]),
    "a negative pattern": _set(("questions", 0, "likely"), [-1, 1]),
    "patterns that do not increase": _set(("questions", 0, "likely"), [3, 1]),
    "a pattern twice": _set(("questions", 0, "likely"), [1, 1]),
    "a pattern that is true": _set(("questions", 0, "likely"), [True, 3]),
    "nine subsets": _many_subsets,
    "a subset of too many cells": _many_cells,
    "an attribute without a name": _set(("attributes", 1, "name"), ""),
    "no bits": _set(("bits",), 0),
    "a total below the truth": _lower_questions,
    "too sharp a law": _sharper,
    "a total with too few places": _set(("epsilon", "total"), lambda x: x[:-1]),
    "a negative total": _set(("epsilon", "total"), lambda x: "-" + x),
    "a total that is a number": _set(("epsilon", "total"), 3),
}


def _likelier(content: Content) -> None:
    """Answers that are uniform half as often, under the label of before."""
    trials = content["trials"]
    trials["uniform"] = f"{int(trials['uniform'], 16) // 2:016x}"


def _exchanged(content: Content) -> None:
    ball = content["trials"]["balls"][0]
    ball["thresholds"], ball["second_thresholds"] = ball["second_thresholds"], ball["thresholds"]


_BALL = ("trials", "balls", 0)
_TRIALS: dict[str, Callable[[Content], None]] = {
    "layers beside them": _set(("layers",), []),
    "a key too many": _set(("trials", "share"), 1),
    "a key too many in a ball": _set((*_BALL, "share"), 1),
    "no balls": _set(("trials", "balls"), []),
    "an object of balls": _set(("trials", "balls"), _numbered),
    "a ball too few": _set(("trials", "balls"), lambda x: x[1:]),
    "ends that are 0": _set(("trials", "ends"), "0" * 16),
    "no weights": _drop(*_BALL, "weights"),
    "an object of weights": _set((*_BALL, "weights"), _numbered),
    "a weight too few": _set((*_BALL, "weights"), lambda x: x[1:]),
    "a negative weight": _set((*_BALL, "weights", 0), -1),
    "a weight that is true": _set((*_BALL, "weights", 0), True),
    "a weight beyond all totals": _set((*_BALL, "weights", 0), 1 << 30),
    "a threshold too few": _set((*_BALL, "thresholds"), lambda x: x[16:]),
    "upper-case digits": _set((*_BALL, "thresholds"), lambda x: "A" + x[1:]),
    "a second threshold above the first": _exchanged,
    "no acceptance": _set((*_BALL, "acceptance"), ""),
    "an acceptance of 0 alone": _set((*_BALL, "acceptance"), "0" * 8),
    "half an acceptance": _set((*_BALL, "acceptance"), lambda x: x[4:]),
    "no trials": _set(("trials", "count"), 0),
    "too many trials": _set(("trials", "count"), 4097),
    "a number of trials that is text": _set(("trials", "count"), "5"),
    "a negative total": _set((*_BALL, "least"), -1),
    "more totals than the format has": _set((*_BALL, "least"), (1 << 24) - 1),
    "a ratio beyond 53 bits": _set((*_BALL, "log_ratio"), 1 << 53),
    "a ratio of more": _set((*_BALL, "log_ratio"), lambda x: 2 * x),
    "another number of bits": _set(("bits",), 128),
    "fewer uniform answers": _likelier,
    "more changes": _set((*_BALL, "thresholds"), lambda x: "f" * 15 + "e" + x[16:]),
    "a total below the truth": _lower_total,
    "a total with too few places": _set(("epsilon", "total"), lambda x: x[:-1]),
}
