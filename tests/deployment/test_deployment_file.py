"""Deployment files: the vectors are what specification and exporter say, and what the specification refuses is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optrr.devices.deployment_file import decoded_deployment
from optrr.devices.verify import DEPLOYMENTS
from optrr.errors import InvalidInput
from optrr.releases.sealed import Content
from tests import vectors

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
