"""The first picture: one person's record before and after randomization, and estimates from many records.

The person is the first one of the bundled Adult records, the design the smallest total for ε_i = 1 with pairs kept, and the
draws are seeded so that the picture stays the same. Seconds to run.
"""

import math
import warnings

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from writing import save, write_csv

import optrr
from optrr.core.display.charts import COLOURS
from optrr.core.domain.datasets import adult, adult_domain

QUICK = True
NAMES = ("sex", "marital-status", "race", "income")
SHOWN = "marital-status"
SEED = 4
TRUE, SENT, QUIET = "#222222", COLOURS[1], "#777777"


def main() -> None:
    domain = adult_domain().subset(NAMES)
    design = optrr.design(domain, 1.0, constraints=optrr.Constraints(preserve="pairs"))
    people = adult().select(NAMES)
    with warnings.catch_warnings():
        # drawn from a seed, for this picture
        warnings.simplefilter("ignore", optrr.OptrrWarning)
        sent = design.randomize(people, random_state=SEED)
        table = design.reports(sent).table(SHOWN).to_arrow().to_pylist()
    truth = shares(people.column(SHOWN).to_pylist())
    raw = shares(sent.column(SHOWN).to_pylist())
    rows = [
        {
            "category": row[SHOWN],
            "true_share": truth[row[SHOWN]],
            "share_of_what_was_sent": raw[row[SHOWN]],
            "estimate": row["estimate"],
            "lower": row["lower"],
            "upper": row["upper"],
        }
        for row in table
    ]
    write_csv("one_record.csv", rows)
    first, drawn = ({name: str(of.column(name)[0].as_py()) for name in NAMES} for of in (people, sent))
    picture(first, drawn, design.epsilon, rows, len(people))


def shares(values: list[object]) -> dict[object, float]:
    """Of each value, the share."""
    kinds, counts = np.unique(np.asarray(values, dtype=object), return_counts=True)
    return dict(zip(kinds.tolist(), (counts / counts.sum()).tolist(), strict=True))


def picture(
    first: dict[str, str], drawn: dict[str, str], epsilon: float, rows: list[dict[str, object]], people: int
) -> None:
    """Draw a record before and after, above the table of all; texts are legible on a phone, 390 pixels wide."""
    figure = plt.figure(figsize=(4.6, 5.9), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(1, 1.15))
    left, right = above.subplots(1, 2)
    record(left, "1  True record:\n    stays on the device", [(name, value, TRUE) for name, value in first.items()])
    changed = [(name, drawn[name], SENT if drawn[name] != first[name] else TRUE) for name in NAMES]
    record(right, "2  LDP report: values\n    changed at random", changed)
    axes = below.subplots()
    table(axes, rows)
    below.suptitle(f"3  Estimates from {people:,} such reports", fontsize=10.5, x=0.02, ha="left")
    times = math.ceil(math.exp(epsilon))
    below.supxlabel(
        f"Total ε = {epsilon:.2f}: a report is at most {times} times as likely\nunder one true record as under "
        "another.",
        fontsize=9,
    )
    axes.set_ylim(bottom=-1.4)  # space for the legend
    axes.legend(loc="lower right", fontsize=9, labelspacing=0.25, borderaxespad=0.2)
    save(figure, "one_record.svg")


def record(axes: Axes, title: str, answers: list[tuple[str, str, str]]) -> None:
    """Draw one record as a card, with values that differ from the truth in colour."""
    axes.axis("off")
    axes.set_title(title, fontsize=10.5, loc="left")
    axes.add_patch(FancyBboxPatch((0.03, 0.02), 0.94, 0.95, boxstyle="round,pad=0.02", fill=False, edgecolor=QUIET))
    for k, (name, value, colour) in enumerate(answers):
        y = 0.9 - 0.24 * k
        axes.text(0.09, y, name.replace("-", " "), fontsize=9, color=QUIET, va="center")
        weight = "bold" if colour == SENT else "normal"
        axes.text(0.09, y - 0.095, value.replace("-", " "), fontsize=10.5, color=colour, weight=weight, va="center")


def table(axes: Axes, rows: list[dict[str, object]]) -> None:
    """Draw the estimated proportions with their intervals, the proportions of the reports, and the true ones."""
    places = np.arange(len(rows))[::-1]
    middle, low, high = (np.array([100 * r[key] for r in rows]) for key in ("estimate", "lower", "upper"))
    truth, sent = ([100 * r[key] for r in rows] for key in ("true_share", "share_of_what_was_sent"))
    ends = [middle - low, high - middle]
    axes.errorbar(middle, places, xerr=ends, fmt="o", ms=4, color=COLOURS[0], capsize=3, label="estimate, 95 % CI")
    axes.plot(truth, places, "|", ms=14, color=TRUE, label="truth")
    axes.plot(sent, places, "x", ms=5, color=SENT, label="reports")
    axes.set_yticks(places, [str(r["category"]).replace("-", " ") for r in rows], fontsize=9)
    axes.set_xlabel("proportion, %", fontsize=9)
    axes.grid(visible=True, axis="x", color="#dddddd")
    axes.set_axisbelow(True)


if __name__ == "__main__":
    main()
