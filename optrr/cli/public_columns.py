"""What commands ask and say about public columns: weights, strata, clusters and groups beside the randomized attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from optrr.cli.inputs import Counted, counted_by, refuse_options, split_names
from optrr.cli.outputs import Outputs
from optrr.cli.printing import late_bar, print_shown, say, warn
from optrr.designs.design import Design
from optrr.domain.public import NONE, PublicColumns
from optrr.errors import InvalidInput
from optrr.records.counts import OpenedRecords
from optrr.tables.estimation.impossible import impossible

if TYPE_CHECKING:
    from pathlib import Path

    from optrr.designs.design import Asking
    from optrr.tables.weighting.estimating import WeightedEstimate
    from optrr.tables.weighting.linearised import Single
    from optrr.tables.weighting.sampled import SampledRecords

_Command = TypeVar("_Command", bound=Callable[..., Any])

public_option = click.option(
    "--public",
    multiple=True,
    metavar="ROLE=COLUMN",
    help="A column beside the attributes that is not randomized: weight=, stratum=, cluster= or group=; repeatable.",
)

_SAMPLE = (
    click.option(
        "--weight",
        metavar="COLUMN",
        help="Public column of weights, where neither the design nor the release names it.",
    ),
    click.option("--stratum", metavar="COLUMN", help="Public column of strata, likewise."),
    click.option("--cluster", metavar="COLUMN", help="Public column of what was sampled first in a stratum, likewise."),
    click.option(
        "--unweighted", is_flag=True, help="Ignore the weight, stratum and cluster that the design or release names."
    ),
    click.option(
        "--single-cluster",
        type=click.Choice(["refuse", "centred"]),
        help="A stratum with one cluster: refuse it, as by default, or take its difference from the mean of all.",
    ),
)


_GROUPS = click.option("--by", metavar="C,D", help="Public columns whose combinations make groups: a table for each.")


def sample_options(command: _Command) -> _Command:
    """The options that say how records were sampled, as the fields of :class:`Sampled` but for its groups."""
    for option in reversed(_SAMPLE):
        command = option(command)
    return command


def sampled_options(command: _Command) -> _Command:
    """These, and groups."""
    return sample_options(_GROUPS(command))


@dataclass(frozen=True)
class Sampled:
    """How the records of a command were sampled, as far as its options say."""

    weight: str | None
    stratum: str | None
    cluster: str | None
    by: str | None
    unweighted: bool
    single_cluster: Single | None

    @property
    def how(self) -> dict[str, Any]:
        """What an estimate takes beside its columns."""
        return {"single_cluster": self.single_cluster or "refuse"}

    @property
    def options(self) -> dict[str, bool]:
        """Which options are given."""
        return {f"--{name.replace('_', '-')}": value not in (None, False) for name, value in vars(self).items()}

    def check(self, others: dict[str, bool]) -> None:
        """Raise InvalidInput where the command has options that a weighted estimate does not take."""
        for option, given in others.items():
            if given:
                raise InvalidInput(
                    f"an estimate by public columns takes no {option}; leave it out, or ignore the sample with --unweighted"
                )

    def check_answers(self, others: dict[str, bool]) -> None:
        """Raise InvalidInput for options, these or others, that answers to questions do not take."""
        named = [option for option, given in {**others, **self.options}.items() if given]
        if named:
            raise InvalidInput(
                f"answers to questions take no {' and no '.join(named)}; leave it out, or ask for whole records"
            )

    def columns(self, reports: OpenedRecords) -> PublicColumns:
        """What an estimate uses: what the design, the releases and the options name; none where it is to ignore the sample.

        Raises
        ------
        InvalidInput
            for options, or declarations, that contradict each other.
        """
        asked = PublicColumns(self.weight, self.stratum, self.cluster)
        if self.unweighted and asked:
            raise InvalidInput(f"--unweighted ignores the sample, and {asked.said()} describes it; leave one out")
        known = NONE if self.unweighted else reports.agreed(asked)
        columns = PublicColumns(known.weight, known.stratum, known.cluster, split_names(self.by) if self.by else ())
        if not columns:
            refuse_options("is for a sample of clusters, and none is declared or given; leave it out", "single_cluster")
        return columns


def carried(asking: Asking, public: PublicColumns) -> Asking:
    """A way of asking with a specification's public columns, or a warning where it does not keep whole records."""
    if isinstance(asking, Design):
        return replace(asking, public=public)
    warn(left_out(public))
    return asking


def left_out(public: PublicColumns) -> list[str]:
    """One line where public columns are declared and whatever is made knows nothing of them."""
    if not public:
        return []
    return [
        f"the specification's public columns ({public.said()}) are left out: only designs of whole records pass them on"
    ]


def sampled_records(
    design: Design, reports: OpenedRecords, names: Sequence[str], columns: PublicColumns
) -> tuple[SampledRecords, list[str]]:
    """The records with their public columns, and what is in doubt about them."""
    from optrr.tables.weighting.sampled import read_sample  # noqa: PLC0415 (most records have no weights)

    doubts = reports.doubts
    columns.apart_from(design.domain)
    with late_bar() as show:
        place = reports.places[0].watched(lambda done, share: show(f"{done} records read", share))
        sample = read_sample(place, reports.asking.domain.subset(names), columns)
    return sample, [*doubts, *impossible([sample.counts()], reports.mechanism)]


def counted_as_sampled(asking: Asking, reports: Any, names: Sequence[str], sampled: Sampled) -> Counted:
    """What a command measures: the table of a sample where one is declared or given, else counts, or a table of answers."""
    if not isinstance(asking, Design):
        sampled.check_answers({})
        return counted_by(asking, reports, names)
    columns = sampled.columns(reports)
    if not columns:
        return counted_by(asking, reports, names)
    from optrr.tables.weighting.linearised import weighted_table  # noqa: PLC0415 (most records have no weights)

    sample, doubts = sampled_records(asking, reports, names, columns)
    return Counted(asking, reports, (weighted_table(sample, reports.mechanism, columns, **sampled.how),), tuple(doubts))


def give_weighted(
    design: Design, design_file: Path, reports: OpenedRecords, attributes: str, outputs: Outputs, **asked: Any
) -> None:
    """The command's weighted estimate, with what is in doubt about its records; ``asked`` as of ``estimate_sample``."""
    from optrr.tables.weighting.estimating import estimate_sample  # noqa: PLC0415 (most estimates have no weights)

    sample, doubts = sampled_records(design, reports, split_names(attributes), asked["columns"])
    result = estimate_sample(sample, reports.mechanism, **asked)
    outputs.give_table(result, (design, design_file, reports, doubts), lambda: _print(result))


def _print(result: WeightedEstimate) -> None:
    for title, table in zip(result.titles(), result.tables, strict=True):
        said = f"{table.n} records, effective {table.kish:.0f} by their weights alone"
        one = result.only(table)
        print_shown(f"{' × '.join(result.domain.names)}{f', {title}' if title else ''}: {said}", one.shown())
    say(result.headline())
    say(result.interval_note)
