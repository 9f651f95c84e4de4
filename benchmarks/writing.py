"""Writing of results: tables, pages and pictures in results/; and parallel evaluation of settings."""

import csv
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

# Pictures without a window, whose shapes have the same names on every run.
mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "optrr"

RESULTS = Path(__file__).parent / "results"


def write_csv(name: str, rows: Sequence[Mapping[str, object]], digits: int = 4) -> None:
    """Write rows as a table whose numbers have so many significant digits."""
    with (RESULTS / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows({k: f"{v:.{digits}g}" if isinstance(v, float) else v for k, v in r.items()} for r in rows)


def read_csv(name: str) -> list[dict[str, str]]:
    """Rows of a result."""
    with (RESULTS / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_text(name: str, *parts: str) -> None:
    """Write a page of these parts, with an empty line between them."""
    (RESULTS / name).write_text("\n\n".join(parts).strip() + "\n", encoding="utf-8")


def markdown(rows: Sequence[Mapping[str, object]], shown: Callable[[object], str] | None = None) -> str:
    """Rows as a Markdown table, with four significant digits unless ``shown`` says otherwise."""
    heads = list(rows[0])
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    lines += ["| " + " | ".join(map(shown or four_digits, row.values())) + " |" for row in rows]
    return "\n".join(lines)


def four_digits(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def three_decimals(value: object) -> str:
    """For shares of data sets: small ones keep two digits, and what was not measured is left out."""
    if not isinstance(value, float):
        return str(value)
    return "" if np.isnan(value) else f"{value:.2g}" if 0 < abs(value) < 0.01 else f"{value:.3f}"


def write(name: str, rows: Sequence[Mapping[str, object]], *parts: str) -> None:
    """Write rows with six significant digits as NAME.csv, and a page about them as NAME.md."""
    write_csv(f"{name}.csv", rows, digits=6)
    write_text(f"{name}.md", *parts)


def save(figure: Any, name: str, **options: object) -> None:
    """Write a picture without a date."""
    if figure.get_layout_engine() is None and not options:
        figure.tight_layout()
    figure.savefig(RESULTS / name, metadata={"Date": None}, **options)


def measure_all(function: Callable[..., Any], *columns: Iterable[Any]) -> list[Any]:
    """The results of a function of each setting, by as many processes as there are processors; lists are joined."""
    out: list[Any] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for k, new in enumerate(pool.map(function, *columns), 1):
            out += new if isinstance(new, list) else [new]
            print(f"{function.__module__}: {k} settings measured", file=sys.stderr, flush=True)
    return out
