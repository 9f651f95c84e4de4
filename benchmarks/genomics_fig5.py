"""POR Fig. 5 as published, then with its slip mended, then with unbiased statistics and with the certified optimum.

It is one call of ``optrr gwas-study``, with 20 draws of the ε_i, for 6 of which the optimum is solved at 50 SNPs, and for
half as many at 100:

    optrr gwas-study --preset por-fig5 --repeats 20 --optima 6 -o TABLE

(optrr/genomics/study/por.py says what is drawn). The optimum is at 10, 20, 50 and 100 SNPs only. Writes genomics_fig5.csv, .svg
and .md, beside the errors that POR's public code printed.
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import numpy as np
from paper_settings import POR_FIG5
from writing import save, write_csv, write_text

from optrr.cli.main import run
from optrr.show.charts import COLOURS, new_figure

SIZES = tuple(POR_FIG5["heuristic"])
PUBLISHED = {f"published {name}": printed for name, printed in POR_FIG5.items()}
NUMBERS = [f"{name}{error}" for name in ("total", "epsilon", "naive", "unbiased") for error in ("", "_se")]


def study() -> list[dict[str, str]]:
    """Every method at every number of SNPs, as the command's table has them, with three decimals."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "errors.tsv"
        settings = ["--snps", ",".join(map(str, SIZES)), "--repeats", "20", "--optima", "6"]
        code = run(["gwas-study", "--preset", "por-fig5", *settings, "-o", str(table)])
        assert code == 0, f"exit {code}"
        with table.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
    return [
        {"snps": r["snps"], "method": r["method"], "sets": r["repeats"]}
        | {name: f"{float(r[name].replace('NA', 'nan')):.3f}" for name in NUMBERS}
        for r in rows
    ]


def main() -> None:
    rows = study()
    write_csv("genomics_fig5.csv", rows)
    draw(rows)
    write_text("genomics_fig5.md", page(rows))


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
    save(figure, "genomics_fig5.svg")


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
    return "\n".join(lines)


if __name__ == "__main__":
    main()
