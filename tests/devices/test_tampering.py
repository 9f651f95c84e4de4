"""Files that were changed, each with a digest of its own: both clients and ``optrr verify`` come to the same verdict.

Two differences are documented (``docs/deployment-format.md``, §5.6), and no other is let through: a client may overlook a
total that is too small by 1e-9 (1 + total), and only ``optrr verify`` looks at accuracies, at conditional ε, and at whether a
total is too large.
"""

import copy
import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from optrr.core.errors import InvalidInput
from optrr.devices.deployment_file import DeployedQuestions, canonical, decoded_deployment, digest_of
from optrr.devices.exact import total_epsilon
from optrr.devices.verify import verify_deployment
from tests import vectors
from tests.javascript import run
from tests.mutations import Content, places

python_client = vectors.load_script(vectors.CLIENTS / "python" / "optrr_client.py")
OVERLOOKED = Decimal("1e-9")
# Every kind of layer, and thresholds of more than 64 bits.
FEW = ["small", "uniform", "rare"]
MORE = ["joint", "few-changes", "ball", "blocks", "pairs"]
ASKED = ["questions-small", "questions-cells", "questions-alone"]

Tampering = tuple[str, Any]


def of_any(value: Any) -> Iterator[Tampering]:
    """A value of another type, some of which a language takes for the same."""
    for other in (None, True, False, 0, 1, -1, 1 << 53, "", "0", "x", [], [0], {}, {"length": 0}):
        yield "another value", other
    yield "in a list", [value]
    yield "in an object", {"0": value, "length": 1}
    yield "as text", json.dumps(value)


def of_text(value: str) -> Iterator[Tampering]:
    yield from (("text", other) for other in (value + " ", " " + value, value + "\n", value[1:], value[:-1], value * 2))
    yield from (("text", other) for other in (value.upper(), value + "\0", value + "é", "\u2028" + value, "０" + value))
    yield "letters", list(value)


def of_number(value: str) -> Iterator[Tampering]:
    """Of an ε."""
    yield from (("form", f"{sign}{value}") for sign in ("-", "+", "0", "1e"))
    for other in ("0", "-0", "0.0", "-0.000000000000000", "0.000000000000000", "NaN", "Infinity", "-Infinity", "1e3"):
        yield "zero" if other.endswith("000") else "form", other
    yield "place", value + "0"
    yield "huge", "9" * 5000 + "." + "9" * 15
    yield "huge", "123456.000000000000000"
    for step in (1, -1, 10**3, -(10**3), 10**5, -(10**5), 3 * 10**6, -3 * 10**6, 10**8, -(10**8), 10**15, -(10**15)):
        units = int(Fraction(value) * 10**15) + step
        yield "moved", f"{'-' if units < 0 else ''}{abs(units) // 10**15}.{abs(units) % 10**15:015d}"


def of_thresholds(value: str) -> Iterator[Tampering]:
    yield from (
        ("digits", other) for other in ("0" * len(value), "f" * len(value), value[16:], value[16:] + value[:16])
    )
    yield from (("digits", value[:-1] + digit) for digit in "0123456789abcdefF")
    yield from (("digits", digit + value[1:]) for digit in "0123456789abcdefF")


def of_list(value: list[Any]) -> Iterator[Tampering]:
    yield "an object like a list", {**{str(k): x for k, x in enumerate(value)}, "length": len(value)}
    yield "an object without a length", {str(k): x for k, x in enumerate(value)}
    yield from (
        ("list", other) for other in (value[1:], value[:-1], value * 2, value[::-1], [*value, None], [*value, 0])
    )
    yield "texts", [str(x) for x in value]


def of_object(value: Content) -> Iterator[Tampering]:
    keys = sorted(value)
    yield "a key too many", value | {"colour": 1}
    yield "a key too many", value | {"__proto__": 1}
    yield "a list", list(value.values())
    for key in keys:
        yield "a key too few", {k: x for k, x in value.items() if k != key}
        yield "another key", {k if k != key else key.upper(): x for k, x in value.items()}
    for first, second in pairwise(keys):
        rest = {k: x for k, x in value.items() if k not in (first, second)}
        yield "two keys in one", rest | {f"{first},{second}": value[first]}
    yield "a key of two", value | {"second,second_threshold": 0}
    yield "null for what is left out", value | {"second": None, "second_threshold": None}


def tamperings(value: Any, path: tuple[Any, ...]) -> Iterator[Tampering]:
    yield from of_any(value)
    if isinstance(value, dict):
        yield from of_object(value)
    elif isinstance(value, list):
        yield from of_list(value)
    elif isinstance(value, int):
        yield from (("number", other) for other in (value + 1, value - 1, -value, value * 64, 1 << 64))
    elif isinstance(value, str):
        yield from of_text(value)
        if path[0] == "epsilon":
            yield from of_number(value)
        if path[-1] in ("threshold", "second_threshold", "ends"):
            yield from of_thresholds(value)


def with_digest(content: Content) -> str:
    return canonical(content | {"digest": digest_of(content)}).decode()


def replaced(content: Content, path: tuple[Any, ...], value: Any) -> Content:
    out = copy.deepcopy(content)
    holder = out
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return out


def tampered(content: Content) -> Iterator[tuple[str, str]]:
    """Which field was changed how, and the file's text."""
    for path in places(content):
        if path == ("digest",):
            continue
        holder: Any = content
        for key in path:
            holder = holder[key]
        for kind, value in tamperings(holder, path):
            yield f"{path}: {kind}, {str(value)[:60]}", with_digest(replaced(content, path, value))
    yield "nothing", with_digest(content)
    if "layers" in content:
        yield "every kind in a list, and no epsilon", with_digest(kinds_in_lists(content))
    text = with_digest(content)
    for old, new in (('{"', '{ "'), (":0", ":-0"), (":0", ":0.0"), (":0", ":0e0"), ("64", "6.4e1"), ('"f', '"\\u0066')):
        yield f"{old} as {new}", text.replace(old, new, 1)
    for place in ("digest", "design"):
        yield f"another {place}", text.replace(f'"{place}":"', f'"{place}":"0')


def kinds_in_lists(content: Content) -> Content:
    """What a client must not take for a file by which nothing changes and nothing is spent."""
    none = "0.000000000000000"
    epsilon = content["epsilon"] | {"total": none, "conditional": [none] * len(content["attributes"])}
    return content | {"layers": [x | {"kind": [x["kind"]]} for x in content["layers"]], "epsilon": epsilon}


def python_takes(text: str) -> bool:
    try:
        python_client.Sampler(text.encode())
    except python_client.Refused:
        return False
    return True


def verifies(text: str, path: Path) -> bool:
    path.write_text(text, encoding="utf-8")
    try:
        return verify_deployment(path).holds
    except InvalidInput:
        return False


def total_too_small(text: str) -> Decimal:
    """How far the stated total is below that of the integers; negative where it is above."""
    deployed = decoded_deployment(text.encode(), "file")
    if isinstance(deployed, DeployedQuestions):
        return deployed.exact_total - Decimal(deployed.total)
    return total_epsilon(deployed.automaton) - Decimal(deployed.stated.total)


@pytest.mark.slow
@pytest.mark.parametrize("names", [FEW, ASKED, MORE], ids=["few", "asked", "more"])
def test_both_clients_and_verify_come_to_the_same_verdict(names: list[str], tmp_path: Path) -> None:
    files = [file for name in names for file in tampered(json.loads(vectors.read(name)["deployment"]))]
    in_javascript = run("refusedFiles", {"files": [{"text": text} for _, text in files]})
    verdicts: Counter[tuple[bool, bool, bool]] = Counter()
    for (what, text), refused in zip(files, in_javascript, strict=True):
        assert refused is None or refused[0], (what, refused)
        verdict = refused is None, python_takes(text), verifies(text, tmp_path / "sampler.json")
        verdicts[verdict] += 1
        match verdict:
            case (True, True, True) | (False, False, False):
                continue
            case (True, False, False):
                less = total_too_small(text)
                stated = Decimal(json.loads(text)["epsilon"]["total"])
                assert 0 < less <= OVERLOOKED * (1 + stated + less), what
            case (True, True, False):
                assert total_too_small(text) <= 0, what
            case _:
                pytest.fail(f"{what}: taken by JavaScript, Python and verify: {verdict}")
    print(f"{len(files)} files: {dict(verdicts)}")
    assert len(verdicts) == 4
    assert min(verdicts.values()) >= 5
