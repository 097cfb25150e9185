"""A page of a report, taken apart as a browser does."""

import re
from html.parser import HTMLParser

VOID = {"meta", "br"}


class Page(HTMLParser):
    """Checks that elements nest and nothing is fetched; keeps tables, figures and text."""

    def __init__(self, html):
        super().__init__()
        self.open, self.ids, self.tables, self.figures, self.headings = [], [], [], 0, []
        self.captions = []
        self.tags, self._text, self._cell = set(), [], None
        assert html.startswith("<!DOCTYPE html>")
        self.feed(html)
        self.close()
        assert not self.open
        assert len(set(self.ids)) == len(self.ids), "an id is used twice"
        style = html.partition("</style>")[0]
        assert not re.search(r"@import|https?:|url\(", style)
        for found in re.findall(r"url\(([^)]*)\)|href=\"([^\"]*)\"", html):
            assert "".join(found).startswith("#"), found
            assert "".join(found)[1:] in self.ids

    @property
    def text(self):
        return " ".join(" ".join(self._text).split())

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            assert not name.startswith("on")
            assert name not in ("src", "srcset", "action", "data")
            if name == "id":
                self.ids.append(value)
        if tag in VOID:
            return
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th", "h2"):
            self._cell = []
        elif tag == "svg":
            self.figures += 1

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in ("td", "th"):
            self.tables[-1][-1].append("".join(self._cell))
            self._cell = None
        elif tag == "h2":
            self.headings.append("".join(self._cell))
            self._cell = None

    def handle_data(self, data):
        if self.open and self.open[-1] in ("style", "title"):
            return
        self._text.append(data)
        if self.open and self.open[-1] == "figcaption":
            self.captions.append(data)
        if self._cell is not None:
            self._cell.append(data)

    def facts(self):
        """Return the rows of two cells, of all tables."""
        return {row[0]: row[1] for table in self.tables for row in table if len(row) == 2}

    def table(self, *header):
        """Return the rows of the only table with some header."""
        (found,) = [table for table in self.tables if table and table[0] == list(header)]
        return found[1:]
