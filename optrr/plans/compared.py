"""What a choice stands beside: other ways of asking, other totals that were looked at, and other trust models, as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from optrr.plans.elsewhere import chance_of_failure, comparisons
from optrr.plans.preview import HALF_WIDTH, Preview
from optrr.plans.record import SeenWay
from optrr.show.parts import Part, Table, Text
from optrr.show.text import amount, cell, epsilon_text

POINTS = "± points"
# Rows of the alternatives, so that a statement stands on two sheets, how many of them are ways of asking at least, and
# characters of what one gives up.
_COMPARED, _LEAST_WAYS, _GIVEN_UP = 9, 5, 100
# Where a comparison begins that trusts somebody.
_OTHER_TRUST = "Another trust model"


def margin_text(points: float) -> str:
    """± percentage points with four digits; in words where a table cannot be estimated."""
    return f"{points:.4g}" if math.isfinite(points) else "not known"


def more_of(count: int, shown: int, noun: str) -> str:
    """The note below a table that shows so many of them."""
    return f"And {amount(count - shown, f'more {noun}')}, listed in plan.toml." if count > shown else ""


def alternatives(preview: Preview, seen: Sequence[SeenWay]) -> list[Part]:
    """The ways compared at this total, then what was looked at beside it."""
    point = preview.point
    # what was seen takes the places of the last ways
    most = max(_LEAST_WAYS, _COMPARED - len(seen))
    ways = [point.way, *(way for way in point.ways if way.name != point.way.name)]
    rows: list[list[object]] = [
        [
            way.title,
            epsilon_text(way.epsilon, 3),
            margin_text(preview.margin_of(way)),
            f"{way.error / point.error_bound:.4g}" if math.isfinite(way.error) else None,
            cell("; ".join(way.gives_up) or "nothing", _GIVEN_UP),
        ]
        for way in ways[:most]
    ]
    for each in seen:
        over = f"{each.over_bound:.4g}" if math.isfinite(each.over_bound) else None
        said = f"seen with {each.n:,} people"
        rows.append([each.way, epsilon_text(each.total, 3), margin_text(each.margin), over, said])
    heads = ["way of asking", "total", POINTS, "over bound", "what it gives up"]
    rows = rows[:_COMPARED]
    return [Table(heads, rows, strong=[0], note=more_of(len(ways) + len(seen), len(rows), "alternative"))]


def elsewhere(preview: Preview) -> list[Part]:
    """The comparisons of :mod:`optrr.plans.elsewhere`, none of which is promised."""
    wanted = [
        (t.cells, t.standard_error, t.sampling_margin / t.margin * t.standard_error)
        for t in preview.tables
        # where randomizing adds nothing that can be computed, a curator needs no noise
        if math.isfinite(t.margin) and t.sampling_margin < t.margin
    ]
    if not wanted:
        return [Text("No table can be compared: none can be estimated, or none loses anything by randomizing.")]
    point, n, delta = preview.point, preview.n, chance_of_failure(preview.n)
    largest = max(t.margin for t in preview.tables if math.isfinite(t.margin))
    rows: list[list[object]] = [
        ["this plan", epsilon_text(point.epsilon, 3), "0", f"{largest:.4g}", "only one's own device is trusted"]
    ]
    for other in comparisons(point.epsilon, n, wanted, delta):
        at_most = 100 * HALF_WIDTH * max(other.standard_errors)
        none = "none" if other.name == "no protection" else "not proved"
        epsilon = none if other.epsilon is None else epsilon_text(other.epsilon, 3)
        trusted, _, rest = other.assumption.partition(": ")
        said = rest.removeprefix("everybody trusts ") if trusted == _OTHER_TRUST else trusted
        rows.append([other.name, epsilon, f"{other.delta:.3g}", f"{at_most:.4g}", said])
    limit = math.log(n / (16 * math.log(2 / delta))) if n > 16 * math.log(2 / delta) else 0.0
    note = (
        f"None of these is promised here. Mixing reports is proved to help up to a local epsilon of {limit:.3g} with so many "
        "people (Feldman, McMillan and Talwar 2021)."
    )
    return [Table(["elsewhere", "epsilon", "delta", "largest ±", "who is trusted"], rows, strong=[0], note=note)]
