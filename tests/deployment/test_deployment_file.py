"""Deployment files: what is read back, and files that lie."""

import json
from fractions import Fraction
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from conformance import Conformance

from optrr.devices.deployment_file import canonical, decoded_deployment, digest_of
from optrr.devices.verify import DEPLOYMENTS, verify_deployment
from optrr.errors import InvalidInput
from optrr.releases.sealed import Content
from tests import naive, vectors
from tests.mutations import measured, mutated

MAKE = vectors.load_script(vectors.VECTORS / "make_vectors.py")
REFERENCE = vectors.load_script(vectors.VECTORS / "reference.py")
# These are refused when a file is verified, not when it is read.
UNTRUE = ("a total below the truth", "questions: a total below the truth", "questions: too sharp a law")


# Another version of a solver may end in other last digits, so these may be made anew with other numbers.
SOLVED = ("many", "pairs", "optimum")


def test_there_are_vectors_for_every_kind_of_layer() -> None:
    layers = [x for name in vectors.NAMES for x in json.loads(vectors.read(name)["deployment"])["layers"]]
    assert {x["kind"] for x in layers} == {"change", "uniform", "choice"}
    assert any("second" in x for x in layers)
    assert sorted(MAKE.LAWS) == vectors.NAMES and sorted(MAKE.ASKED) == vectors.QUESTIONS and len(vectors.NAMES) >= 24
    base, asked = MAKE.content_of("small"), MAKE.content_of("questions-small")
    assert vectors.read("refused-files")["files"] == MAKE.refused_files(base) + MAKE.refused_questions(asked)
    assert vectors.read("refused-records") == MAKE.refused_records(base)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow if n == vectors.LONG else ())
        for n in (*vectors.NAMES, *vectors.QUESTIONS)
    ],
)
def test_a_vector_file_is_what_the_reference_makes_of_its_bytes(name: str) -> None:
    vector = vectors.read(name)
    assert name.startswith(SOLVED) or vector == MAKE.vectors_of(name)
    content = json.loads(vector["deployment"])
    labels = [a["categories"] for a in content["attributes"]]
    for case in vector["cases"]:
        stream = bytes.fromhex(case["bytes"])
        at = [0]

        def take(n: int, stream: bytes = stream, at: list[int] = at) -> bytes:
            at[0] += n
            return stream[at[0] - n : at[0]]

        codes = [x.index(v) for x, v in zip(labels, case["record"], strict=True)]
        assert MAKE.drawn(content, codes, REFERENCE.Bytes(take)) == case["randomized"]
        assert at[0] == len(stream)


@pytest.mark.parametrize("name", [*vectors.NAMES, *vectors.QUESTIONS])
def test_a_file_is_written_as_it_was_read(name: str) -> None:
    text = vectors.read(name)["deployment"].encode()
    assert decoded_deployment(text, name).to_bytes() == text + b"\n"


def test_what_the_specification_refuses_is_refused() -> None:
    files = vectors.read("refused-files")["files"]
    assert len(files) > 60
    for file in files:
        raw = file["text"].encode()
        if file["why"] in UNTRUE:
            assert not DEPLOYMENTS.checked(raw, "file").holds
            continue
        with pytest.raises(InvalidInput):
            DEPLOYMENTS.loaded(Content(Path("file"), raw))


# One of every kind of law, with few enough change sets to walk every path.
NAMES = [
    "joint", "optimum-3", "optimum-6", "pairs", "product", "rare", "small", "table", "uniform", "blocks", "few-changes", "ball",
]  # fmt: skip
# Above the truth a label may stand by this much, and by the last of its 15 places.
ABOVE = mp.mpf("1e-9") + mp.mpf("1e-15")


def originals() -> dict[str, Content]:
    return {name: json.loads(vectors.read(name)["deployment"]) for name in NAMES}


def written(content: Content, path: Path) -> Path:
    """The content with the digest that it should have."""
    path.write_bytes(canonical(content | {"digest": digest_of(content)}))
    return path


def verified(path: Path) -> bool:
    try:
        return verify_deployment(path).holds
    except InvalidInput as error:
        assert "\n" not in str(error)
        return False


def texts(value: str, rng: np.random.Generator) -> str:
    """Another text: a digit more or less where it is a number, other digits where it is a threshold, or a word."""
    if value.replace(".", "").isdigit() and "." in value:
        step = Fraction(10) ** int(rng.integers(-15, 1)) * int(rng.choice([-3, -1, 1, 3]))
        moved = Fraction(value) + step
        return (
            f"{'-' if moved < 0 else ''}{abs(int(moved * 10**15)) // 10**15}.{abs(int(moved * 10**15)) % 10**15:015d}"
        )
    if len(value) >= 16 and set(value) <= set("0123456789abcdef"):
        k = int(rng.integers(len(value)))
        changed = value[:k] + str(rng.choice(list("0123456789abcdef"))) + value[k + 1 :]
        start = 16 * int(rng.integers(len(value) // 16))
        return str(rng.choice([changed, value[16:], value * 2, value[start:] + value[:start], value.upper()]))
    return str(rng.choice(["", "change", "uniform", "choice", "optrr-deployment/2", "0", "x"]))


def broken_promises(content: Content) -> list[str]:
    """What a file says that its integers do not keep."""
    sizes = [len(a["categories"]) for a in content["attributes"]]
    truth = naive.ExactTruth(sizes, Conformance(content).exact_sets())
    stated = content["epsilon"]
    out = []
    with mp.workdps(60):
        if not mp.mpf(stated["total"]) >= naive.log_of(truth.total):
            out.append("total")
        for i, (own, conditional) in enumerate(zip(stated["attributes"], stated["conditional"], strict=True)):
            if not 0 <= mp.mpf(own) - naive.log_of(truth.attribute[i]) <= ABOVE:
                out.append(f"accuracy of {i}")
            if not mp.mpf(conditional) >= naive.log_of(truth.conditional[i]):
                out.append(f"conditional of {i}")
    return out


def test_honest_files_keep_their_promises(tmp_path: Path) -> None:
    kinds = set()
    for content in originals().values():
        assert verified(written(content, tmp_path / "s.json"))
        assert not broken_promises(content)
        kinds |= {x["kind"] for x in content["layers"]} | {"second" for x in content["layers"] if "second" in x}
    assert kinds == {"change", "uniform", "choice", "second"}


def test_the_enumeration_sees_a_lie() -> None:
    content = originals()["small"]
    for change in ("total", "attributes", "conditional"):
        lie = json.loads(json.dumps(content))
        value = lie["epsilon"][change]
        lie["epsilon"][change] = "0.000000000000000" if change == "total" else ["0.000000000000000"] * len(value)
        assert broken_promises(lie)


@pytest.mark.slow
def test_no_mutation_that_verifies_breaks_a_promise(tmp_path: Path) -> None:
    count = 3_000
    files, passed = originals(), 0
    for number in range(count):
        name = NAMES[number % len(NAMES)]
        content = mutated(files[name], np.random.default_rng([61, number]), texts)
        path = written(content, tmp_path / "s.json")
        with measured() as cost:
            holds = verified(path)
        assert cost.processor_seconds < 10 and cost.memory < 1 << 30, number
        if holds:
            passed += 1
            assert not broken_promises(content), (number, name)
    # names, categories and the name of the design or the software are no promises that the integers could break
    assert 0 < passed < count / 2
