"""What commands that read records ask alike: INPUT, the design, attributes, proportions, scores, and how sure intervals are.

Options that say nothing of what is asked are refused rather than ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import msgspec
import numpy as np

from optrr.cli.options import argument, group, option, refuse_options
from optrr.core.design import require_signed
from optrr.core.domain import (
    NONE,
    Category,
    Domain,
    GivenScores,
    PairScores,
    PublicColumns,
    listed,
    scores_of_pair,
    shown,
)
from optrr.core.errors import InvalidInput
from optrr.core.provenance import DESIGN, LONGITUDINAL, SAMPLED_TABLES, Content, Given, kind_of, read_small
from optrr.core.records import RecordsAt, file_formats, files_at, refuse_replacing
from optrr_solvers.arrays import FloatArray

if TYPE_CHECKING:
    from optrr.core.reports import Reports


def _records(
    input: tuple[str, ...] = argument(metavar="INPUT…", required=True),
    format: str | None = option(
        f"Format of INPUT, where its name does not say it: {', '.join(file_formats())}.", metavar="FORMAT"
    ),
    delimiter: str | None = option(
        "Delimiter of CSV; by default the one under which the first line holds the declared names.", metavar="CHARACTER"
    ),
    encoding: str | None = option(
        "Encoding of CSV, such as latin-1; by default UTF-8, or windows-1252 where INPUT is not UTF-8.", metavar="NAME"
    ),
    decimal: str | None = option("Decimal separator of CSV, such as a comma; by default a point.", metavar="CHARACTER"),
    date_format: str | None = option(
        "How CSV writes dates, such as %d.%m.%Y; by default 2024-03-01.", metavar="FORMAT"
    ),
    query: str | None = option(
        "For databases (duckdb:FILE, sqlite:FILE, postgresql://…): one row per record.", metavar="SQL"
    ),
) -> RecordsAt:
    """One or more places of records, and how they are written."""
    return RecordsAt(
        input[0] if len(input) == 1 else input,
        format,
        "\t" if delimiter in ("\\t", "tab") else delimiter,
        encoding,
        decimal,
        date_format,
        query,
    )


INPUT = group(_records)
DESIGN_FILE = option("Design file from optrr design.", "--design", required=True)
CONFIDENCE = option("Confidence of each interval.", default=0.95)
SIMULTANEOUS = option("Intervals that all hold together with that confidence.")
TABLE_ATTRIBUTES = option(
    "Attributes of the table, separated by commas; a comma inside a name is written twice.",
    metavar="A,B",
    required=True,
)
AMONG = option(
    "Only people whose true answer to A, in the table or not, is one of these; repeatable.",
    metavar="A=CATEGORY,CATEGORY,…",
)
COMPLETE_CASES = option("Leave out people whose true record has a missing value in one of the attributes.")
IGNORABLE = option(
    "Everybody, if who answered about A depends on the other attributes alone, which you declare so.", metavar="A"
)
RANDOM_STATE = option("Seed of the draw.", type=click.IntRange(min=0))


@dataclass(frozen=True)
class Signed:
    """Whose signature a design must have."""

    key: Path | None = option("Refuse a design that the owner of this public key did not sign.", metavar="PUBLIC.PEM")
    signature: Path | None = option("Where its signature is; by default FILE.sig.", needs="key")

    def check(self, held: Content) -> None:
        """Raise InvalidInput for a file that was not signed so."""
        require_signed(held, self.key, self.signature, SAMPLED_TABLES if kind_of(held) == SAMPLED_TABLES else DESIGN)


# Options of how INPUT is written; not the query, which may name what others must not read.
_WRITTEN = ("format", "delimiter", "encoding", "decimal", "date_format")


def said_of_input(context: click.Context) -> dict[str, str]:
    """How INPUT is written, by option, as far as options say it."""
    said = {name.replace("_", "-"): context.params.get(name) for name in _WRITTEN}
    return {option: value for option, value in said.items() if value is not None}


def by_name(texts: Iterable[str], option: str, meant: str) -> dict[str, str]:
    """What stands behind the last ``=`` of each text, by the name before it.

    Raises
    ------
    InvalidInput
        for a text without a name, or a name that is given twice, of which only the last would count; ``meant`` is an example.
    """
    out: dict[str, str] = {}
    for text in texts:
        name, equals, said = text.rpartition("=")
        if not equals or not name:
            raise InvalidInput(f"{option} {text} is not understood; write {option} {meant}")
        if name in out:
            raise InvalidInput(f"{option} is given twice for {name!r}, and only one can count; give it once")
        out[name] = said
    return out


def categories_of(texts: Sequence[str], option: str, domain: Domain) -> dict[str, tuple[str, ...]]:
    """Categories by attribute from texts such as ``age=18-29,30-39``; names and categories may hold = themselves.

    Raises
    ------
    InvalidInput
        for a text that begins with no attribute and =, or an attribute that is given twice.
    """
    out: dict[str, tuple[str, ...]] = {}
    for text in texts:
        names = [text[:k] for k, character in enumerate(text) if character == "=" and text[:k] in domain.names]
        if not names:
            raise InvalidInput(
                f"{option} {text} is not understood; write {option} ATTRIBUTE=CATEGORY,CATEGORY with one of "
                f"{listed(domain.names)}"
            )
        if names[0] in out:
            raise InvalidInput(f"{option} is given twice for {names[0]!r}, and only one can count; give it once")
        out[names[0]] = split_names(text[len(names[0]) + 1 :])
    return out


def where_of(texts: Sequence[str], domain: Domain) -> dict[str, tuple[str, ...]]:
    """The categories that --where keeps, by attribute. Raises InvalidInput as :func:`categories_of`."""
    return categories_of(texts, "--where", domain)


def keep_input(output: Path, input: RecordsAt) -> None:
    """Refuse to write over a file of INPUT: randomized records cannot be made again without a second release.

    Raises
    ------
    InvalidInput
        naming the file.
    """
    refuse_replacing(
        output, files_at(input.named) or [], f"{output} is an input of this command; write to another file"
    )


def split_names(text: str) -> tuple[str, ...]:
    """Names separated by commas; a doubled comma stands for one inside a name."""
    return tuple(n.replace("\0", ",").strip() for n in text.replace(",,", "\0").split(","))


def refuse_longitudinal(file: Given) -> None:
    """Raise InvalidInput for a longitudinal design where a device is to draw: it would have to draw anew in every round."""
    if kind_of(file) == LONGITUDINAL:
        raise InvalidInput(
            f"{file} is a longitudinal design, and devices draw once: make its reports with `optrr longitudinal-randomize` "
            "where the records are, or design the same specification with `optrr design` to ask once"
        )


_HELP = (
    "Shares of the cells that sum to 1: numbers separated by commas, the last attribute changing fastest, or a JSON file "
    "with a nested list or what `estimate --json` printed."
)


def proportions_option(purpose: str, required: bool = False) -> Any:
    """The option --proportions; its help opens with what the command does with it."""
    return option(f"{purpose} {_HELP}", metavar="P,P,…|FILE", required=required)


def read_numbers(text: str, refusal: str) -> list[float]:
    """Numbers separated by commas. Raises InvalidInput with the ``refusal`` where one is none."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(refusal) from None


def read_proportions(text: str, domain: Domain) -> FloatArray:
    """Proportions over the domain's cells, in its shape.

    Raises
    ------
    InvalidInput
        for a file that cannot be read or holds another table, entries that are not numbers, or another number of them than
        cells. Whether they are a distribution is checked where they are used.
    """
    values, held = _from_file(Path(text), domain) if text.endswith(".json") else (text.split(","), domain)
    shape = tuple(map(int, held.sizes))
    try:
        given = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise InvalidInput(
            f"--proportions {shown(text)} holds something that is not a number; give {prod(shape)} shares"
        ) from None
    if given.shape != shape and given.shape != (prod(shape),):
        raise InvalidInput(
            f"--proportions {shown(text)} has shape {given.shape} and the table of {listed(held.names)} {shape}; give "
            f"{prod(shape)} shares"
        )
    return given.reshape(shape).transpose(held.indices(domain.names))


class _Printed(msgspec.Struct):
    """The fields of ``estimate --json`` that are read: which attributes, their categories, and the table."""

    attributes: list[str]
    categories: list[list[Category]]
    estimate: Any


def _from_file(path: Path, domain: Domain) -> tuple[Any, Domain]:
    """The shares, and the domain with its attributes in the order of the file's axes.

    The order matters where attributes have the same size, because the shape alone does not tell them apart.
    """
    try:
        held = msgspec.json.decode(read_small(path))
        if not isinstance(held, dict):
            return held, domain
        printed = msgspec.convert(held, _Printed)
    except msgspec.ValidationError as reason:
        raise InvalidInput(
            f"{path} is neither a nested list nor what `optrr estimate --json` printed: {reason}"
        ) from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}; check the path") from error
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8; save it in that encoding") from None
    except (msgspec.DecodeError, RecursionError) as reason:
        raise InvalidInput(
            f"{path} is not JSON: {reason}; give a nested list or what `estimate --json` printed"
        ) from None
    if sorted(printed.attributes) != sorted(domain.names):
        raise InvalidInput(
            f"{path} is a table of {listed(printed.attributes)}, not of {listed(domain.names)}; estimate that table"
        )
    ordered = domain.subset(printed.attributes)
    if printed.categories != [list(a.categories) for a in ordered]:
        raise InvalidInput(f"{path} has other categories than the design; give an estimate of this design's table")
    return printed.estimate, ordered


_TRENDS = ("trend", "common-trend")
SCORES = option(
    "Numbers for the categories of A, in their declared order, in place of their own (or of 0, 1, 2 …); repeatable.",
    metavar="A=S,S,…",
)


def scores_by_name(texts: Sequence[str]) -> dict[str, list[float]]:
    """The scores of each attribute that the option names. Raises InvalidInput where a text is not understood."""
    given = by_name(texts, "--scores", "age=20,30,40")
    meant = "takes numbers separated by commas; write --scores age=20,30,40"
    return {name: read_numbers(said, f"--scores {name}={said} {meant}") for name, said in given.items()}


def scores_of(texts: Sequence[str], names: Sequence[str]) -> dict[str, list[float]]:
    """The scores that the option gives to these attributes. Raises InvalidInput where it names another one, too."""
    given = scores_by_name(texts)
    for name in given:
        if name not in names:
            raise InvalidInput(f"--scores is given for {name!r}; it is for {listed(names)}")
    return given


def scores_of_two(texts: Sequence[str], names: Sequence[str]) -> GivenScores | None:
    """The scores of the first two of these attributes; None where no option is given. Raises as :func:`scores_of`."""
    given = scores_of(texts, names[:2])
    return (given.get(names[0]), given.get(names[1])) if given else None


def scores_of_trend(test: str, texts: Sequence[str], domain: Domain) -> PairScores | None:
    """What the categories of the first two attributes count in a trend; None for other tests, which have no scores."""
    if texts and test not in _TRENDS:
        raise InvalidInput(f"--scores is for --test {' or '.join(_TRENDS)}; leave it out for {test}")
    return scores_of_pair(domain, scores_of_two(texts, domain.names)) if test in _TRENDS else None


POOL = option(
    "Count as one category the rare ones, such as 1%, whose estimated shares are below that; or those named. Repeatable for "
    "several attributes.",
    "--collapse",
    metavar="SHARE|A=X,Y,…",
)


def with_pool(reports: Reports, texts: Sequence[str], names: Sequence[str]) -> Reports:
    """The reports with the categories of ``names`` pooled as --collapse says; the same ones where it is not given.

    Raises
    ------
    InvalidInput
        for what is neither a share nor an attribute's categories, both at once, and as :func:`optrr.analysis.collapsed.pooled`.
    """
    if not texts:
        return reports
    from optrr.analysis.collapsed import Pool, pooled  # noqa: PLC0415 (few commands pool categories)

    if all("=" in text for text in texts):
        given = dict(text.split("=", 1) for text in texts)
        if len(given) < len(texts):
            raise InvalidInput("--collapse names an attribute twice; give all of its categories together, A=X,Y")
        pool: Pool = {name.strip(): split_names(categories) for name, categories in given.items()}
    else:
        if len(texts) > 1:
            raise InvalidInput("--collapse takes one share, or the categories of attributes, A=X,Y; give one of these")
        pool = texts[0]
    return pooled(reports, pool, *names)


PUBLIC = option(
    "A column beside the attributes that is not randomized: weight=, stratum=, cluster= or group=; repeatable.",
    metavar="ROLE=COLUMN",
)


@dataclass(frozen=True)
class Sampled:
    """How the records of a command were sampled, as far as its options say."""

    weights: str | None = option(
        "Public column of weights, where neither the design nor the release names it.", "--weights", metavar="COLUMN"
    )
    strata: str | None = option("Public column of strata, likewise.", "--strata", metavar="COLUMN")
    clusters: str | None = option(
        "Public column of what was sampled first in a stratum, likewise.", "--psu", metavar="COLUMN"
    )
    unweighted: bool = option("Ignore the weight, stratum and cluster that the design or release names.")
    lonely_psu: Literal["refuse", "centred"] | None = option(
        "A stratum with one cluster: refuse it, as by default, or take its difference from the mean of all."
    )

    def keywords(self, reports: Reports, by: Sequence[str] = ()) -> tuple[dict[str, Any], PublicColumns]:
        """What is given, as analyses of these reports take it, and the columns that these then use.

        Raises InvalidInput for what contradicts the design or a release, and for answers.
        """
        given = {name: value for name, value in vars(self).items() if value not in (None, False)}
        if not reports.of_records:
            for name in (*given, *(["by"] if by else [])):
                raise InvalidInput(f"answers to questions take no ``{name}``; leave it out, or ask for whole records")
            return {}, NONE
        columns = reports.sample(PublicColumns(self.weights, self.strata, self.clusters), self.unweighted, by)
        if not columns:
            refuse_options("is for a sample of clusters, and none is declared or given; leave it out", "lonely_psu")
        return given, columns
