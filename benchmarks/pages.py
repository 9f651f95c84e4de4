"""The papers' pages: published numbers, ours, and the reasons for differences, for all figures and tables.

A page's text is in ``papers/NAME.md`` next to this script; its numbers are taken from the kept results when the page is
made, so they always agree with the results. Writes docs/papers/.

A template may use

    result("rij.md", "Figs. 5–8")   a section of a result's page, without its heading; all of it if no heading is given;
                                    until="| figure" ends it before that text
    all_of("rij.md", "table")       a link to a result's page or table, for numbers that are too many for a page
    number("rij.csv", "rr_ind_drawn", figure="Fig. 6", value="1")   one cell; figures=2 says how many digits to show
    span("por_ratios.csv", "optimum", k="3")   smallest and largest of a column over the rows that match
    columns("exact_solvers.csv", {"m": "k", ...}, method="lp")   some columns as a table, under the names given
    cell("por_ratios.md", "within 1 %", setting="ε_i = 3", k="10")   one cell of a table on a result's page
    written("sic_table1.md", "spent ([0-9.]+) nats")   the first such text on a result's page
    picture("rij.svg", "what it shows")
    settings("rij")   what the paper sets for each figure and table, from paper_settings.py

Each page ends with a table of all that the paper states, from ``papers/statements.toml``, whose cells may use these too.
"""

import csv
import re
import tomllib
from pathlib import Path

import jinja2
from paper_settings import listed
from writing import RESULTS, markdown

QUICK = True
FOLDER = Path(__file__).parent
PAGES = FOLDER.parent / "docs" / "papers"
COLUMNS = ("in the paper", "statement", "implementation", "result", "correction")


def result(name: str, heading: str = "", until: str = "") -> str:
    """A results page or one of its sections, headings made smaller to stand below a page's own."""
    text = (RESULTS / name).read_text(encoding="utf-8")
    if heading:
        parts = re.split(r"^#+ (.*)$", text, flags=re.MULTILINE)
        sections = dict(zip(parts[1::2], parts[2::2], strict=True))
        match = [body for title, body in sections.items() if title.startswith(heading)]
        if len(match) != 1:
            raise KeyError(f"{name} has {len(match)} sections {heading!r}; it has {', '.join(sections)}")
        text = match[0]
    else:
        text = re.sub(r"\A# .*\n", "", text)
    if until:
        text, there, _ = text.partition(until)
        if not there:
            raise KeyError(f"{name} does not say {until!r}")
    return re.sub(r"^#+ ", "#### ", text, flags=re.MULTILINE).strip()


def all_of(name: str, text: str) -> str:
    """Link to a result that is too long for a page."""
    if not (RESULTS / name).is_file():
        raise FileNotFoundError(f"benchmarks/results/{name} is not there; run its benchmark first")
    return f"[{text}](../../benchmarks/results/{name})"


def rows(name: str, **where: str) -> list[dict[str, str]]:
    """Rows of a results table whose cells are as asked."""
    with (RESULTS / name).open(newline="", encoding="utf-8") as file:
        matching = [r for r in csv.DictReader(file) if all(r[k] == v for k, v in where.items())]
    if not matching:
        raise KeyError(f"{name} has no row with {where}")
    return matching


def shown(value: str, figures: int) -> str:
    """A number to so many significant figures, other text as it is."""
    try:
        number = float(value)
    except ValueError:
        return value
    return value if number == int(number) and len(value) < 8 else f"{number:.{figures}g}"


def number(name: str, column: str, figures: int = 3, **where: str) -> str:
    """One cell."""
    matching = rows(name, **where)
    if len(matching) > 1:
        raise KeyError(f"{name} has {len(matching)} rows with {where}; say which one")
    return shown(matching[0][column], figures)


def span(name: str, column: str, figures: int = 3, **where: str) -> str:
    """Smallest to largest."""
    values = [float(r[column]) for r in rows(name, **where) if r[column] not in ("", "nan")]
    low, high = f"{min(values):.{figures}g}", f"{max(values):.{figures}g}"
    return low if low == high else f"{low} to {high}"


def columns(name: str, named: dict[str, str], **where: str) -> str:
    """A table of some columns."""
    return markdown([{said: shown(r[c], 4) for c, said in named.items()} for r in rows(name, **where)])


def cell(name: str, column: str, **where: str) -> str:
    """One cell of the first table with this column on a result's page."""
    lines = (RESULTS / name).read_text(encoding="utf-8").splitlines()
    table = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    header = next((row for row in table if column in row and set(where) <= set(row)), None)
    if header is None:
        raise KeyError(f"{name} has no table with the columns {column!r} and {', '.join(where)}")
    named = [dict(zip(header, row, strict=False)) for row in table]
    matching = [row for row in named if all(row.get(k) == v for k, v in where.items())]
    if len(matching) != 1:
        raise KeyError(f"{name} has {len(matching)} rows with {where}")
    return matching[0][column]


def written(name: str, pattern: str) -> str:
    """The first group of a pattern in a result's page."""
    match = re.search(pattern, (RESULTS / name).read_text(encoding="utf-8"))
    if match is None:
        raise KeyError(f"{name} does not say {pattern!r}")
    return match[1]


def place(where: str) -> str:
    """A link to a file of the project, under the name of what is meant in it."""
    path, _, name = where.partition(":")
    # a proof's name says enough; of many functions only the module says what they solve
    shown_as = name if name.startswith(("prove_", "test_")) else f"{Path(path).stem}.{name}"
    return f"[`{shown_as if name else Path(path).name}`](../../{path})"


def statements(paper: str, environment: jinja2.Environment) -> str:
    """The table of all that a paper states."""
    listed = tomllib.loads((FOLDER / "papers" / "statements.toml").read_text(encoding="utf-8"))[paper]
    table = []
    for row in listed:
        where = ", ".join(map(place, row["where"])) if row.get("where") else row["reason"]
        cells = (row["statement"], row["says"], where, row["got"], row.get("errs", ""))
        texts = (environment.from_string(c).render().replace("|", "\\|") for c in cells)
        table.append(dict(zip(COLUMNS, texts, strict=True)))
    return f"\n## Every statement of the paper\n\n{markdown(table)}\n"


def settings(paper: str) -> str:
    """What a paper sets, as a table."""
    return markdown([{"in the paper": what, "settings": said} for what, said in listed(paper).items()])


def picture(name: str, caption: str) -> str:
    """A link to a results picture, which must be there."""
    if not (RESULTS / name).is_file():
        raise FileNotFoundError(f"benchmarks/results/{name} is not there; run its benchmark first")
    return f"![{caption}](../../benchmarks/results/{name})"


def main() -> None:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "papers"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown from the project itself, which is no HTML
    )
    environment.globals |= {
        f.__name__: f for f in (result, all_of, number, span, columns, cell, written, picture, settings)
    }
    PAGES.mkdir(parents=True, exist_ok=True)
    for name in environment.list_templates(extensions=["md"]):
        head = (
            f"<!-- Made by benchmarks/pages.py from benchmarks/papers/{name} and the kept results; edit there. -->\n\n"
        )
        text = environment.get_template(name).render().rstrip() + "\n"
        table = statements(name.removesuffix(".md"), environment)
        (PAGES / name).write_text(head + text + table, encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
