"""Power, χ² error and rank correlation against total ε on real genotypes; writes benchmarks/results/genomics_study.*.

``optrr gwas study``, 20 times, on 2,504 people of the 1000 Genomes Project at 55 ancestry markers, Europeans as cases, trend
test at 5 %.
"""

import csv
from typing import Any

from people import people_table
from writing import save, write_csv

from optrr.cli.main import run
from optrr.core.display.charts import COLOURS, new_figure

TOTALS = "1,2,4,8,16,32,64"
METHODS = ("optimum", "kronecker", "inductive", "association")
SHOWN = {"power": "power at 5 %", "chi2_error": "mean |χ² − true χ²|", "rank_correlation": "rank correlation, top 20"}


def study() -> list[dict[str, str]]:
    """The command's table."""
    with people_table() as genotypes:
        table = genotypes.parent / "study.tsv"
        arguments = ["--phenotype-column", "superpopulation", "--case", "EUR", "--methods", ",".join(METHODS)]
        code = run(
            [
                "gwas",
                "study",
                str(genotypes),
                *arguments,
                "--total-epsilon",
                TOTALS,
                "--repeats",
                "20",
                "-o",
                str(table),
            ]
        )
        assert code == 0, f"exit {code}"
        with table.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file, delimiter="\t"))


def main() -> None:
    rows = study()
    write_csv("genomics_study.csv", rows)
    draw(rows)


def draw(rows: list[dict[str, Any]]) -> None:
    figure = new_figure(10.0, 3.4)
    for place, (key, title) in enumerate(SHOWN.items()):
        axes = figure.add_subplot(1, 3, place + 1)
        for method, colour in zip(METHODS, COLOURS, strict=False):
            mine = [r for r in rows if r["method"] == method]
            x, y, e = ([float(r[c]) for r in mine] for c in ("total", key, f"{key}_se"))
            axes.errorbar(x, y, yerr=e, color=colour, marker="o", markersize=4, label=method)
        axes.set_xscale("log", base=2)
        axes.set_xlabel("total ε, nats")
        axes.set_title(title, fontsize=9)
        if key == "chi2_error":
            axes.set_yscale("log")
    axes.legend(fontsize=7)
    save(figure, "genomics_study.svg")


if __name__ == "__main__":
    main()
