"""The vector files are what their script makes with today's exporter."""

import pytest

from tests import vectors

make_vectors = vectors.load_script(vectors.VECTORS / "make_vectors.py")
# Another version of a solver may end in other last digits, so these may be made anew with other numbers.
SOLVED = ("many", "pairs", "optimum")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name == vectors.LONG else ())
        for name in (*vectors.NAMES, *vectors.QUESTIONS)
        if not name.startswith(SOLVED)
    ],
)
def test_a_vector_file_is_what_the_script_makes(name: str) -> None:
    assert vectors.read(name) == make_vectors.vectors_of(name)


def test_every_law_has_its_vectors_and_every_refusal_is_there() -> None:
    assert sorted(make_vectors.LAWS) == vectors.NAMES and sorted(make_vectors.ASKED) == vectors.QUESTIONS
    base, asked = make_vectors.content_of("small"), make_vectors.content_of("questions-small")
    refused = make_vectors.refused_files(base) + make_vectors.refused_questions(asked)
    assert vectors.read("refused-files")["files"] == refused
    assert vectors.read("refused-records") == make_vectors.refused_records(base)
