"""optrr design --accuracy variance: the questions, what they cost, and how well each attribute is estimated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from optrr import files
from optrr.budgets.variances import accuracies, variance_design
from optrr.cli.printing import TABLE_DECIMALS, print_json, print_table, say, warn
from optrr.cli.public_columns import carried
from optrr.designs.design import Design
from optrr.show.result import SHOWN
from optrr.show.text import amount, bound_text, crossed, epsilon_text
from optrr.ways.protocols.sampled_tables import SampledTables
from optrr_solvers import SolveOptions
from optrr_solvers.allocating.energy import total_bound


def give_variance_design(
    flips: Design, options: SolveOptions, n: int | None, output: Path | None, as_json: bool
) -> None:
    """Write and print what estimates each attribute as well as ``flips`` was asked to; ``n`` people give standard errors."""
    asked, least = variance_design(flips, options)
    made = carried(asked, flips.public)
    if isinstance(made, Design):
        warn(made.warnings)
    if output is not None:
        files.save(made, output)
    rows = accuracies(asked, flips.requested_epsilons)
    if n is not None:
        for row in rows:
            row["standard_error"] = float(np.sqrt(row["error"] / (n * row["size"])))
    out: dict[str, Any] = {
        "accuracy": "variance",
        "method": "questions" if isinstance(asked, SampledTables) else flips.method,
        "epsilon": made.epsilon,
        "flips_epsilon": flips.epsilon,
        "least_of_questions": least,
        "total_bound": total_bound(flips.domain.sizes, flips.requested_epsilons),
        "keeps_records": made.keeps_records,
        "n": n,
        "attributes": rows,
        "tables": _tables(asked),
        "questions": _questions(asked),
    }
    if as_json:
        print_json(out)
    else:
        _show(out)


def _tables(asked: SampledTables | Design) -> list[list[str]]:
    """The groups of attributes whose common table can be estimated beside single attributes: those that are asked together."""
    if isinstance(asked, Design):
        return []
    return [list(t) for t in dict.fromkeys(asked.tables) if len(t) > 1 and np.isfinite(asked.table_error(t))]


def _questions(asked: SampledTables | Design) -> list[dict[str, Any]]:
    if isinstance(asked, Design):
        return []
    rows = zip(asked.tables, asked.shares.tolist(), asked.subset_reports, strict=True)
    return [
        {"attributes": list(names), "share": share, "subset_sizes": list(r.subset_sizes), "likely": list(r.likely)}
        for names, share, r in rows
    ]


def _show(out: dict[str, Any]) -> None:
    questions = out["questions"]
    say(
        f"total epsilon {epsilon_text(out['epsilon'])}   "
        + (
            f"each person answers one of {amount(len(questions), 'question')}"
            if questions
            else f"method {out['method']}"
        )
    )
    if questions:
        say(f"flipping as rarely as randomized response at each epsilon takes {epsilon_text(out['flips_epsilon'])}")
        say(
            f"no mixture of the questions that were looked at has a total below {bound_text(out['least_of_questions'])}"
        )
    say(
        "no mechanism, whatever people send, estimates every attribute with as little variance at a total below "
        f"{bound_text(out['total_bound'], TABLE_DECIMALS)}"
    )
    if questions:
        say(
            "no records are kept: only the shares of each attribute"
            + (", and tables of those asked together," if out["tables"] else "")
            + " can be estimated, now or later"
        )
    if questions:
        print_table(
            _of("questions", len(questions)),
            ["about", "share of people", "categories named of each"],
            [(crossed(q["attributes"]), q["share"], ", ".join(map(str, q["subset_sizes"]))) for q in questions[:SHOWN]],
        )
    n = out["n"]
    heads = [
        "attribute",
        "categories",
        "epsilon",
        "n × squared error",
        "of randomized response",
        "standard errors' ratio",
    ]
    print_table(
        _of("how well each attribute is estimated" + (f" from {n} people" if n else ""), len(out["attributes"])),
        heads + (["standard error"] if n else []),
        [tuple(row.values()) for row in out["attributes"][:SHOWN]],
    )


def _of(title: str, count: int) -> str:
    return f"{title} (first {SHOWN} of {count})" if count > SHOWN else title
