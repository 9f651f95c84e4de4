"""Pages as their readers have them."""

import html.parser


class Read(html.parser.HTMLParser):
    """A page as its reader has it: tables by heading, paragraphs, what is in the charts, tags, ids and references."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[list[str]]]] = {}
        self.warnings, self.quotes, self.tags, self.ids, self.references = [], [], [], [], []
        self.text, self.heading, self._open = "", "", []
        self.with_attributes: list[tuple[str, dict[str, str | None]]] = []
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.with_attributes.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        self.references += [v for k, v in attrs if k in ("src", "href", "xlink:href", "data", "action", "srcset")]
        self._open.append((tag, dict(attrs).get("class") or ""))
        if tag == "h2":
            self.heading = ""
        elif tag == "table":
            self.tables.setdefault(self.heading, []).append([])
        elif tag == "tr":
            self.tables[self.heading][-1].append([])
        elif tag in ("th", "td"):
            self.tables[self.heading][-1][-1].append("")
        elif tag == "p" and self._open[-1][1] == "warning":
            self.warnings.append("")
        elif tag == "blockquote":
            self.quotes.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.text += data
        inside = [tag for tag, _ in self._open]
        if "h2" in inside:
            self.heading += data
        if "td" in inside or "th" in inside:
            self.tables[self.heading][-1][-1][-1] += data
        if self._open and self._open[-1] == ("p", "warning"):
            self.warnings[-1] += data
        if "blockquote" in inside:
            self.quotes[-1] += data

    @property
    def all_tables(self) -> list[list[list[str]]]:
        """Every table, without the headings."""
        return [each for tables in self.tables.values() for each in tables]

    def table(self, first: str) -> list[list[str]]:
        """The rows of the table whose first head this is, with the heads."""
        return next(each for each in self.all_tables if each[0][0] == first)
