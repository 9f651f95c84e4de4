"""The first picture: what happens to one person's record, and what many such records say.

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
    """A record before and after, and the table of all."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10, 3.7), width_ratios=(1, 1, 1.35))
    record(left, "1  A person's answers\nstay on the device", [(name, value, TRUE) for name, value in first.items()])
    changed = [(name, drawn[name], SENT if drawn[name] != first[name] else TRUE) for name in NAMES]
    record(middle, "2  What is sent is drawn\nat random (orange: changed)", changed)
    middle.text(
        0.5,
        -0.06,
        f"Whichever record is the true one, this one is at most\n{math.ceil(math.exp(epsilon))} times as likely as under "
        f"any other: total ε = {epsilon:.2f}.",
        ha="center",
        va="top",
        fontsize=8.5,
        transform=middle.transAxes,
    )
    left.text(0.5, -0.06, "Nobody else ever sees them.", ha="center", va="top", fontsize=8.5, transform=left.transAxes)
    table(right, rows, people)
    # below the charts, where it covers no row
    figure.legend(*right.get_legend_handles_labels(), loc="lower right", ncols=3, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    save(figure, "one_record.svg")


def record(axes: Axes, title: str, answers: list[tuple[str, str, str]]) -> None:
    """One record as a card; what differs from the truth in colour."""
    axes.axis("off")
    axes.set_title(title, fontsize=11, loc="center")
    axes.add_patch(FancyBboxPatch((0.04, 0.02), 0.92, 0.94, boxstyle="round,pad=0.02", fill=False, edgecolor=QUIET))
    for k, (name, value, colour) in enumerate(answers):
        y = 0.86 - 0.235 * k
        axes.text(0.1, y, name.replace("-", " "), fontsize=8.5, color=QUIET, va="center")
        weight = "bold" if colour == SENT else "normal"
        axes.text(0.1, y - 0.1, value.replace("-", " "), fontsize=11, color=colour, weight=weight, va="center")


def table(axes: Axes, rows: list[dict[str, object]], people: int) -> None:
    """The estimated shares with their intervals, what was sent, and the truth."""
    places = np.arange(len(rows))[::-1]
    middle, low, high = (np.array([100 * r[key] for r in rows]) for key in ("estimate", "lower", "upper"))
    truth, sent = ([100 * r[key] for r in rows] for key in ("true_share", "share_of_what_was_sent"))
    ends = [middle - low, high - middle]
    axes.errorbar(
        middle, places, xerr=ends, fmt="o", ms=4, color=COLOURS[0], capsize=3, label="estimate, 95 % interval"
    )
    axes.plot(truth, places, "|", ms=14, color=TRUE, label="truth")
    axes.plot(sent, places, "x", ms=5, color=SENT, label="as sent")
    axes.set_yticks(places, [str(r["category"]).replace("-", " ") for r in rows], fontsize=8.5)
    axes.set_xlabel("percent of all people", fontsize=8.5)
    axes.set_title(f"3  {people:,} such records\ntell what people are like", fontsize=11)
    axes.grid(visible=True, axis="x", color="#dddddd")
    axes.set_axisbelow(True)


if __name__ == "__main__":
    main()
