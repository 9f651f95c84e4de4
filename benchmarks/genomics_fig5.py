"""POR Fig. 5 as published, then with its slip mended, then with unbiased statistics and with the certified optimum.

Run as ``python benchmarks/genomics_fig5.py [SETS] [OPTIMA]``: how many draws of the ε_i (20 unless told), and for how many
of them the optimum is solved at 50 SNPs (6 unless told), with half as many at 100. It is one call of ``optrr gwas-study``:

    optrr gwas-study --preset por-fig5 --repeats SETS --optima OPTIMA -o TABLE

(optrr/genomics/study/por.py says what is drawn). The optimum is at 10, 20, 50 and 100 SNPs only. Writes genomics_fig5.csv, .svg
and .md, beside the errors that POR's public code printed.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np
from paper_settings import POR_FIG5

from optrr.cli.main import run
from optrr.show.charts import COLOURS, new_figure

SIZES = tuple(POR_FIG5["heuristic"])
PUBLISHED = {f"published {name}": printed for name, printed in POR_FIG5.items()}
RESULTS = Path(__file__).parent / "results"
COLUMNS = [
    "snps",
    "method",
    "sets",
    "total",
    "total_se",
    "epsilon",
    "epsilon_se",
    "naive",
    "naive_se",
    "unbiased",
    "unbiased_se",
]


def rows_of(snps: str, sets: int, optima: int) -> list[list[object]]:
    """Every method at these numbers of SNPs."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "errors.tsv"
        settings = ["--snps", snps, "--repeats", str(sets), "--optima", str(optima)]
        code = run(["gwas-study", "--preset", "por-fig5", *settings, "-o", str(table)])
        assert code == 0, f"exit {code}"
        lines = [line.split("\t") for line in table.read_text(encoding="utf-8").splitlines()]
    named = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    return [
        [
            int(r["snps"]),
            r["method"],
            int(r["repeats"]),
            *(f"{float(r[c].replace('NA', 'nan')):.3f}" for c in COLUMNS[3:]),
        ]
        for r in named
    ]


def main(sets: int, optima: int) -> None:
    write(rows_of(",".join(map(str, SIZES)), sets, optima))


def write(rows: list[list[object]]) -> None:
    with (RESULTS / "genomics_fig5.csv").open("w", newline="") as out:
        csv.writer(out).writerows([COLUMNS, *rows])
    named = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    draw(named)
    (RESULTS / "genomics_fig5.md").write_text(page(named))


SHOWN = {
    "published heuristic": ("heuristic, with the slip", COLOURS[1], ":"),
    "published Kronecker": ("Kronecker, with the slip", COLOURS[0], ":"),
    "kronecker": ("Kronecker", COLOURS[0], "-"),
    "heuristic": ("heuristic", COLOURS[1], "-"),
    "optimum": ("optimum", COLOURS[2], "-"),
}


def draw(rows: list[dict[str, str]]) -> None:
    figure = new_figure(10.0, 4.2)
    for place, (key, title) in enumerate(
        (("naive", "naive statistics, as published"), ("unbiased", "unbiased statistics"))
    ):
        axes = figure.add_subplot(1, 2, place + 1)
        for name, (label, colour, line) in SHOWN.items():
            if key == "unbiased" and name in PUBLISHED:
                continue
            mine = [r for r in rows if r["method"] == name]
            x, y, e = ([float(r[c]) for r in mine] for c in ("snps", key, f"{key}_se"))
            axes.errorbar(x, y, yerr=np.nan_to_num(e), color=colour, ls=line, marker="o", markersize=4, label=label)
            if name in PUBLISHED:
                points = PUBLISHED[name]
                axes.plot(
                    list(points), list(points.values()), "x", color=colour, label=f"{label.split(',')[0]}, printed"
                )
        axes.set_xlabel("SNPs")
        axes.set_ylabel("mean |χ² − χ² of the true table|")
        axes.set_ylim(bottom=0)
        axes.set_title(title, fontsize=9)
        axes.legend(fontsize=7, loc="center right")
    figure.savefig(RESULTS / "genomics_fig5.svg", metadata={"Date": None})


def page(rows: list[dict[str, str]]) -> str:
    """Published, run with the slip, and run without it."""
    at = {(int(r["snps"]), r["method"]): r for r in rows}

    def cell(snps: int, method: str, key: str = "naive") -> str:
        row = at.get((snps, method))
        return "" if row is None else f"{float(row[key]):.1f} ± {float(row[key + '_se']):.1f}"

    lines = [
        "# POR Fig. 5: mean |χ² − χ² of the true table|",
        "",
        "Printed: by the authors' public code, mean of 10 runs. With the slip: every SNP randomized from the last SNP's "
        "records, as that code does. ± one standard error over the draws of the ε_i.",
        "",
        "| SNPs | heuristic: printed | with the slip | mended | Kronecker: printed | with the slip | mended | "
        "heuristic, unbiased statistic | optimum, naive | optimum, unbiased |",
        "|---" * 10 + "|",
    ]
    for snps in SIZES:
        cells = [
            f"{PUBLISHED['published heuristic'][snps]:.1f}",
            cell(snps, "published heuristic"),
            cell(snps, "heuristic"),
        ]
        cells += [
            f"{PUBLISHED['published Kronecker'][snps]:.1f}",
            cell(snps, "published Kronecker"),
            cell(snps, "kronecker"),
        ]
        cells += [cell(snps, "heuristic", "unbiased"), cell(snps, "optimum"), cell(snps, "optimum", "unbiased")]
        lines.append(f"| {snps} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    given = [int(x) for x in sys.argv[1:3]]
    main(*given, *(20, 6)[len(given) :])
