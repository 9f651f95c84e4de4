"""What a scan is written as: the options of optrr gwas for tables in the field's forms, and for plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from optrr.cli.inputs import refuse_options
from optrr.cli.outputs import PLOT, TABBED
from optrr.domain.domain import shown
from optrr.errors import InvalidInput, did_you_mean
from optrr.genomics.plots import WINDOW, check_plot, check_top, check_window, save_figure
from optrr.genomics.result_files import FORMATS, META, NOT_REPORTED, ScannedStudy, check_form
from optrr.genomics.scan import PLOTS, TOP_DRAWN, Associations, ScanOptions
from optrr.show.text import amount

Command = TypeVar("Command", bound=Callable[..., Any])


def scan_output_options(command: Command) -> Command:
    """Where the table of results goes, and in which form."""
    for option in (
        click.option(
            "--trait-description", help="With --format ssf: the trait, for its metadata.  [default: NR, not reported]"
        ),
        click.option("--assembly", help="With --format ssf: the genome assembly of the positions, such as GRCh38."),
        click.option(
            "--format",
            "form",
            type=click.Choice(FORMATS),
            default=FORMATS[0],
            show_default=True,
            help="Columns of the table: this program's, those of plink2 --glm, or GWAS-SSF with its metadata beside it.",
        ),
        click.option(
            "-o",
            "--output",
            type=TABBED,
            help="Table of results to write (tab separated; compressed where it ends in .gz).",
        ),
    ):
        command = option(command)
    return command


def scan_files(output: Path | None, form: str) -> list[Path | None]:
    """The files that the table is written to."""
    return [output, output.with_name(output.name + META)] if output is not None and form == "ssf" else [output]


def study_of(options: dict[str, Any], epsilon: float, digest: str, wanted: ScanOptions) -> ScannedStudy | None:
    """What GWAS-SSF's metadata say, where that is the form; checked before anything is tested.

    Raises
    ------
    InvalidInput
        for options of a form that is not written, and tests that a form has no place for.
    """
    check_form(options["form"], wanted.test, wanted.naive)
    if options["output"] is None:
        refuse_options(
            "is of the table of results; give -o too, or leave it out", "form", "assembly", "trait_description"
        )
    if options["form"] != "ssf":
        refuse_options("is for GWAS-SSF; give --format ssf too, or leave it out", "assembly", "trait_description")
        return None
    return ScannedStudy(options["assembly"] or "", epsilon, digest, options["trait_description"] or NOT_REPORTED)


def write_results(scanned: Associations, output: Path, form: str, study: ScannedStudy | None) -> list[str]:
    """Write the table; what to say of it, a line each. Raises InvalidInput where it cannot be written."""
    if form == "plink2":
        scanned.write_plink2(output)
    elif study is not None:
        left_out = scanned.write_ssf(output, study).items()
        return [f"not listed in {output}: {amount(count, 'variant')} {reason}" for reason, count in left_out]
    else:
        scanned.write_tsv(output)
    return []


def plot_options(command: Command) -> Command:
    """Plots of the scan."""
    for option in (
        click.option("--window", type=int, help=f"With --region-plot: base pairs on either side.  [default: {WINDOW}]"),
        click.option(
            "--around", help="With --region-plot: the variant in its middle; default: the smallest p-value's."
        ),
        click.option("--top", type=int, help=f"With --forest: how many variants.  [default: {TOP_DRAWN}]"),
        click.option("--region-plot", "region_file", type=PLOT, help="Plot to write of p-values around one variant."),
        click.option(
            "--forest",
            "forest_file",
            type=PLOT,
            help="Forest plot to write: effects and intervals of the smallest p-values.",
        ),
        click.option("--qq", "qq_file", type=PLOT, help="QQ plot to write, with a 95 % band."),
        click.option("--manhattan", "manhattan_file", type=PLOT, help="Manhattan plot to write (.svg, .png, .pdf)."),
    ):
        command = option(command)
    return command


def plot_files(options: dict[str, Any]) -> dict[str, Path]:
    """The plots that are asked for, by kind; checked before anything is tested.

    Raises
    ------
    InvalidInput
        for names that no plot is written under, and options of a plot that is not.
    """
    if options["forest_file"] is None:
        refuse_options("is for --forest; give it too, or leave it out", "top")
    elif options["top"] is not None:
        check_top(options["top"])
    if options["region_file"] is None:
        refuse_options("is for --region-plot; give it too, or leave it out", "around", "window")
    elif options["window"] is not None:
        check_window(options["window"])
    files = {kind: options[f"{kind}_file"] for kind in PLOTS if options[f"{kind}_file"] is not None}
    for path in files.values():
        check_plot(path)
    return files


def check_around(options: dict[str, Any], names: Sequence[str]) -> None:
    """Raise InvalidInput where --around names none of the design's variants; whether it was tested is known later."""
    name = options["around"]
    if name is not None and name not in set(names):
        raise InvalidInput(f"the design has no variant {shown(name)} (--around){did_you_mean(name, names)}")


def save_plots(scanned: Associations, options: dict[str, Any]) -> None:
    """Draw and write them."""
    top = TOP_DRAWN if options["top"] is None else options["top"]
    for kind, path in plot_files(options).items():
        save_figure(scanned.plot(kind, top=top, around=options["around"], window=options["window"]), path)
