"""What stands beside the choice of a plan: the other ways of asking, and what other trust models would need."""

from __future__ import annotations

import math
from collections.abc import Sequence

from optrr.errors import InvalidInput
from optrr.plans.elsewhere import Elsewhere, chance_of_failure, comparisons
from optrr.plans.figures import Figures, power_of_ten
from optrr.plans.preview import HALF_WIDTH, Preview, Way
from optrr.plans.question import Question
from optrr.show.parts import Part, Table, Text, page_environment
from optrr.show.text import amount, one_line

# Half of a 95 % interval in percentage points, of a standard error of a share.
_POINTS = 100 * HALF_WIDTH


def ways_html(question: Question, preview: Preview | None, figures: Figures) -> str:
    """Every way of asking, to choose from; the best alone where nothing is known yet."""
    template = page_environment("optrr.plans").get_template("ways.html")
    if preview is None:
        return template.render(ways=[], best="", chosen=question.way)
    point = preview.point
    ways = [
        {
            "name": way.name,
            "title": way.title,
            "margin": figures.points(preview.margin_of(way)),
            "gives_up": "; ".join(way.gives_up) or "nothing",
            "refused": _refused(preview, way),
        }
        for way in point.ways
    ]
    best = next((way.title for way in point.ways if way.name == point.best), point.best)
    return template.render(ways=ways, best=best, chosen=question.way)


def _refused(preview: Preview, way: Way) -> str:
    if preview.question.keep is not None and not way.keeps_records:
        return "it keeps no records, and any table shall be possible later"
    return "it cannot estimate every table" if not math.isfinite(way.error) else ""


def elsewhere_parts(preview: Preview, figures: Figures) -> list[Part]:
    """What the same margins, or the same ε, would come to with somebody who is trusted, and by classical methods."""
    tables = [(t.cells, t.standard_error, t.sampling_margin / _POINTS) for t in preview.tables]
    try:
        others = comparisons(preview.point.epsilon, preview.n, tables, chance_of_failure(preview.n))
    except InvalidInput as error:
        return [Text(f"There is nothing to compare with: {one_line(error.args[0])}.")]
    nobody = "Nobody: chance works on each person's own device."
    errors = [error for _, error, _ in tables]
    own = ("this plan", figures.epsilon(preview.point.epsilon), None, figures.points(_typical(errors)), nobody)
    columns = ("what", "ε, nats", "δ", "± points", "who must be trusted")
    note = "None of these is a promise of this plan; each stands under its own assumption."
    if len(preview.question.learn.tables) > len(tables):
        note += f" They are about the first {amount(len(tables), 'table')}."
    return [Table(columns, [own, *(_row(each, figures) for each in others)], note=note, strong=(0,))]


def _row(other: Elsewhere, figures: Figures) -> tuple[str | None, ...]:
    epsilon: str | None = "none" if other.name == "no protection" else "beyond the theorem"
    if other.epsilon is not None:
        epsilon = figures.number(other.epsilon)
    delta = power_of_ten(other.delta) if other.delta else None
    return other.name, epsilon, delta, figures.points(_typical(other.standard_errors)), other.assumption


def _typical(standard_errors: Sequence[float]) -> float:
    """Root mean square, as half of a 95 % interval in points."""
    return _POINTS * math.sqrt(math.fsum(e * e for e in standard_errors) / len(standard_errors))
