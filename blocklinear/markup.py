"""HTML that stands for itself, for notebooks and reports: nothing is fetched, all text escaped."""

from collections.abc import Collection, Iterable, Mapping, Sequence

STYLE = (
    ".blocklinear table{border-collapse:collapse;margin:.5em 0}"
    ".blocklinear caption{text-align:left;font-weight:600;caption-side:top;padding:.2em 0}"
    ".blocklinear th,.blocklinear td{text-align:left;vertical-align:top;"
    "padding:.25em 1.2em .25em 0;border-bottom:1px solid rgba(128,128,128,.3)}"
    ".blocklinear th{font-weight:600}"
    ".blocklinear .number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    ".blocklinear .best{font-weight:600}"
    ".blocklinear pre{overflow-x:auto}"
)
"""How tables look, in notebooks as in reports."""


def facts_html(title: str, facts: Mapping[str, str]) -> str:
    """Return a table of names and values, for a notebook."""
    return _in_notebook(facts_table(title, facts))


def table_html(
    title: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    marked: int | None = None,
    numbers: Collection[int] = (),
) -> str:
    """Return a table with a header, for a notebook; see `table`."""
    return _in_notebook(table(title, header, rows, marked, numbers))


def text_html(text: str) -> str:
    """Return text as it is, its columns kept, for a notebook."""
    return _in_notebook(f"<pre>{escaped(text)}</pre>")


def facts_table(title: str, facts: Mapping[str, str]) -> str:
    """Return a table of names and values."""
    rows = (f"<tr><th>{escaped(name)}</th><td>{_lines(facts[name])}</td></tr>" for name in facts)
    return _table(title, "", rows)


def table(
    title: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    marked: int | None = None,
    numbers: Collection[int] = (),
) -> str:
    """Return a table with a header.

    Parameters
    ----------
    title : str               above it; none if empty
    marked : int or None      a row, from 0, that is bold
    numbers : collection of int         columns, from 0, that are right-aligned
    """
    kinds = [' class="number"' if k in numbers else "" for k in range(len(header))]
    head = "".join(
        f"<th{kind}>{escaped(name)}</th>" for name, kind in zip(header, kinds, strict=True)
    )
    body = (
        ('<tr class="best">' if number == marked else "<tr>")
        + "".join(f"<td{kind}>{_lines(cell)}</td>" for cell, kind in zip(row, kinds, strict=True))
        + "</tr>"
        for number, row in enumerate(rows)
    )
    return _table(title, f"<thead><tr>{head}</tr></thead>", body)


def escaped(text: str) -> str:
    """Return text escaped; what cannot be printed, or turns the direction of text, is a mark."""
    from html import escape  # late: most who import this show nothing

    return escape("".join(c if c.isprintable() or c in "\n\t" else "�" for c in text))


def _lines(text: str) -> str:
    return escaped(text).replace("\n", "<br>")


def _in_notebook(html: str) -> str:
    return f'<div class="blocklinear"><style>{STYLE}</style>{html}</div>'


def _table(title: str, head: str, rows: Iterable[str]) -> str:
    caption = f"<caption>{escaped(title)}</caption>" if title else ""
    return f"<table>{caption}{head}<tbody>{''.join(rows)}</tbody></table>"
