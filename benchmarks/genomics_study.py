"""Power, χ² error and rank correlation against total ε on real genotypes; writes benchmarks/results/genomics_study.*.

Run as ``python benchmarks/genomics_study.py [REPEATS]`` (20 unless told), that is, ``optrr gwas-study`` on 2,504 people
of the 1000 Genomes Project at 55 ancestry markers, Europeans as cases, trend test at 5 %.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from people import people_table

from optrr.cli.main import run
from optrr.show.charts import COLOURS, new_figure

RESULTS = Path(__file__).parent / "results"
TOTALS = "1,2,4,8,16,32,64"
METHODS = ("optimum", "kronecker", "inductive", "sampling", "association")
SHOWN = {"power": "power at 5 %", "chi2_error": "mean |χ² − true χ²|", "rank_correlation": "rank correlation, top 20"}


def table_of(methods: tuple[str, ...], totals: str, repeats: str) -> list[list[str]]:
    """Cells of the command's table, the names of its columns first."""
    with people_table() as genotypes:
        table = genotypes.parent / "study.tsv"
        arguments = ["--phenotype-column", "superpopulation", "--case", "EUR", "--methods", ",".join(methods)]
        arguments += ["--total-epsilon", totals, "--repeats", repeats, "-o", str(table)]
        code = run(["gwas-study", str(genotypes), *arguments])
        assert code == 0, f"exit {code}"
        return [line.split("\t") for line in table.read_text(encoding="utf-8").splitlines()]


def main(repeats: str) -> None:
    lines = table_of(METHODS, TOTALS, repeats)
    (RESULTS / "genomics_study.csv").write_text("".join(",".join(line) + "\n" for line in lines))
    draw([dict(zip(lines[0], line, strict=True)) for line in lines[1:]])


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
    figure.savefig(RESULTS / "genomics_study.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "20")
