"""Tables of HTML that stand for themselves, for notebooks; all text is escaped."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def facts_html(title: str, facts: Mapping[str, str]) -> str:
    """Return a table of names and values."""
    rows = (
        f'<tr><th style="text-align: left">{escape(name)}</th>'
        f'<td style="text-align: left">{_lines(value)}</td></tr>'
        for name, value in facts.items()
    )
    return _table(title, "", rows)


def table_html(
    title: str, header: Sequence[str], rows: Iterable[Sequence[str]], marked: int | None = None
) -> str:
    """Return a table with a header; row `marked`, from 0, is bold."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = (
        ('<tr style="font-weight: bold">' if number == marked else "<tr>")
        + "".join(f"<td>{_lines(cell)}</td>" for cell in row)
        + "</tr>"
        for number, row in enumerate(rows)
    )
    return _table(title, f"<thead><tr>{head}</tr></thead>", body)


def text_html(text: str) -> str:
    """Return text as it is, its columns kept."""
    return f"<pre>{escape(text)}</pre>"


def _lines(text: str) -> str:
    return escape(text).replace("\n", "<br>")


def _table(title: str, head: str, rows: Iterable[str]) -> str:
    style = "text-align: left; font-weight: bold; caption-side: top"
    caption = f'<caption style="{style}">{escape(title)}</caption>'
    return f"<table>{caption}{head}<tbody>{''.join(rows)}</tbody></table>"
