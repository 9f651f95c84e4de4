"""The stories of the documentation: they exist under their questions, execute, and point to what is there.

That every cell runs is checked where the site is built: a cell that fails fails the build.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TITLES = {
    "quick-start": "Your first design, from your own CSV",
    "tutorials/plan": "Which ε can I defend?",
    "tutorials/how-much-epsilon": "How much ε do I need for this accuracy?",
    "tutorials/fixed-total": "My total is 3: what can I get, and should I ask everyone everything?",
    "tutorials/phones-and-web": "Put it on phones and a web page",
    "tutorials/related-answers": "Are these two answers related?",
    "tutorials/genotypes": "A χ² study on protected genotypes",
    "tutorials/reproduce-a-paper": "Reproduce and extend a paper",
    "tutorials/read-a-label": "Read an ε label",
    "how-it-works/design-problem": "The design problem in pictures",
    "how-it-works/certificates": "Certificates: why believe the ε on the label?",
    "how-it-works/what-is-lost": "What is lost: pairs, and protection against those who know you",
    "how-it-works/estimation": "Estimation in effects",
    "how-it-works/naive-chi-square": "Why an ordinary χ² test fails",
    "how-it-works/attacks": "Attacks: what an observer learns, and what a liar can do",
}
STORIES = [DOCS / f"{name}.md" for name in TITLES]
CELL = re.compile(r"^```\{code-cell\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(story: Path) -> str:
    return story.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TITLES)
def test_it_has_its_title_and_its_folder_lists_it(name: str) -> None:
    assert re.search(r"^# (.*)$", text_of(DOCS / f"{name}.md"), re.MULTILINE)[1] == TITLES[name]
    folder, _, page = name.rpartition("/")
    listed = re.findall(r"^(?:[\w ]+ <)?([\w*./-]+)>?$", text_of(DOCS / folder / "index.md"), re.MULTILINE)
    assert {page, f"{page}*"} & set(listed), name


@pytest.mark.parametrize("story", [*STORIES, DOCS / "glossary.md"], ids=lambda story: story.stem)
def test_what_it_points_to_is_there(story: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", text_of(story))
    assert targets
    for target in targets:
        assert "://" in target or (story.parent / target).exists(), target


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.stem)
def test_it_is_executed_and_every_picture_is_told_to_those_who_cannot_see_it(story: Path) -> None:
    text = text_of(story)
    cells = CELL.findall(text)
    assert text.startswith("---\nfile_format: mystnb\n") and len(cells) >= 4
    assert text.count("```{code-cell}") == len(cells)
    for cell in cells:
        if "plt.show()" in cell or ".plot()" in cell:
            assert re.search(r"^    alt: .{40}", cell, re.MULTILINE), cell


def test_each_is_printed_as_it_is_run() -> None:
    """Cells are hidden where they only fetch files into the page's folder; input alone where no formula is wanted."""
    for story in STORIES:
        hidden = [c for c in CELL.findall(text_of(story)) if "remove-cell" in c]
        assert all("symlink_to" in cell for cell in hidden), story
        assert "remove-input" not in text_of(story) or story.stem == "read-a-label"


def test_the_client_is_used_as_its_own_page_says() -> None:
    """The story shows the JavaScript that the client's own page shows, so that there is one text to keep right."""
    shown = re.findall(
        r"^```js\n(.*?)^```$", text_of(DOCS / "tutorials" / "phones-and-web.md"), re.MULTILINE | re.DOTALL
    )
    assert shown and all(block in text_of(ROOT / "clients" / "javascript" / "README.md") for block in shown)


def test_the_glossary_is_the_table_of_words() -> None:
    start, end = re.findall(r'^:(?:start-after|end-before): "(.*)"$', text_of(DOCS / "glossary.md"), re.MULTILINE)
    design = text_of(DOCS / "design.md")
    assert design.count(start) == design.count(end) == 1
    rows = design.split(start)[1].split(end)[0].strip()
    # one table: a line without bars would end it, and the rows after it would be text
    assert len(rows.splitlines()) > 30 and all(line.startswith("|") for line in rows.splitlines())
