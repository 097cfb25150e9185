"""What is in LIBSVM text, and what is wrong with it, without making anything of it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from blocklinear.arguments import Path, check_options, path_list
from blocklinear.errors import InputError
from blocklinear.events import Listener, TextProgress, ignore
from blocklinear.markup import text_html
from blocklinear.numerals import counted, format_number
from blocklinear.options import TextOptions
from blocklinear.text.reader import RowReader
from blocklinear.text.rows import Rows

SHOWN_PROBLEMS, SHOWN_LABELS, MAX_PROBLEMS, MAX_LABELS = 20, 20, 1_000_000, 10_000
"""Problems and labels shown; at how many problems an input, at how many labels counting ends."""


class _Options(TextOptions):
    """Reads smaller pieces: each bad line in one is an object in memory."""

    @property
    def slab_bytes(self) -> int:
        return min(super().slab_bytes, 256 << 10)


@dataclass
class CheckReport:
    """What `check` found.

    Attributes
    ----------
    rows, entries : int       entries are without explicit zeros
    blank_lines, explicit_zeros : int
    index_base : int          number of the first feature
    min_index, max_index : int or None      explicit zeros included; None without entries
    min_value, max_value : float or None    of the entries
    min_row_entries, max_row_entries : int or None
    labels : dict or None     rows of each label, in order of first appearance; None when there are
                              more than `MAX_LABELS`
    problems : list[str]      the first `SHOWN_PROBLEMS`, each with its place
    n_problems : int
    complete : bool           whether every input was read to its end
    notes : list[str]         what is odd about the inputs, but no problem
    """

    rows: int = 0
    entries: int = 0
    blank_lines: int = 0
    explicit_zeros: int = 0
    index_base: int = 1
    min_index: int | None = None
    max_index: int | None = None
    min_value: float | None = None
    max_value: float | None = None
    min_row_entries: int | None = None
    max_row_entries: int | None = None
    labels: dict[float, int] | None = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    n_problems: int = 0
    complete: bool = True
    notes: list[str] = field(default_factory=list)

    def note(self, error: InputError) -> None:
        """Take in a problem."""
        self.n_problems += 1
        if len(self.problems) < SHOWN_PROBLEMS:
            self.problems.append(error.what)

    def add(self, rows: Rows) -> None:
        """Take in the next rows."""
        self.rows += rows.n_rows
        self.entries += rows.nnz
        self.blank_lines += rows.n_blank
        self.explicit_zeros += rows.n_zeros
        seen = [rows.min_index, rows.max_index] if rows.min_index <= rows.max_index else []
        self.min_index, self.max_index = _range(self.min_index, self.max_index, seen)
        values, lengths = rows.values(), np.diff(rows.indptr)
        self.min_value, self.max_value = _range(self.min_value, self.max_value, _ends(values))
        shortest, longest = self.min_row_entries, self.max_row_entries
        self.min_row_entries, self.max_row_entries = _range(shortest, longest, _ends(lengths))
        if self.labels is not None:
            names, first, counts = np.unique(rows.labels(), return_index=True, return_counts=True)
            for k in np.argsort(first):
                label = float(names[k])
                self.labels[label] = self.labels.get(label, 0) + int(counts[k])
            if len(self.labels) > MAX_LABELS:
                self.labels = None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON holds it."""
        table = None
        if self.labels is not None:
            table = [{"label": name, "rows": n} for name, n in self.labels.items()]
        mean = self.entries / self.rows if self.rows else None
        return {**vars(self), "labels": table, "mean_row_entries": mean}

    def to_json(self) -> str:
        """Return one JSON object."""
        return json.dumps(self.as_dict())

    def summary(self) -> str:
        """Describe it in a few lines for people, without the problems."""
        lines = [
            f"{counted(self.rows, 'row')}, {counted(self.entries, 'entry', 'entries')}, "
            f"{counted(self.blank_lines, 'blank line')}, "
            f"{counted(self.explicit_zeros, 'explicit zero')}"
        ]
        if self.labels is None:
            lines.append(f"labels: more than {MAX_LABELS} (regression)")
        elif self.labels:
            pairs = list(self.labels.items())
            shown = ", ".join(
                f"{format_number(label)} ({counted(n, 'row')})" for label, n in pairs[:SHOWN_LABELS]
            )
            more = len(pairs) - SHOWN_LABELS
            lines.append(f"labels: {shown}" + (f" and {more} more" if more > 0 else ""))
        if self.min_index is not None:
            lines.append(f"indices: {self.min_index} to {self.max_index}, base {self.index_base}")
        if self.min_value is not None and self.max_value is not None:
            lines.append(
                f"values: {format_number(self.min_value)} to {format_number(self.max_value)}"
            )
        if self.rows:
            lines.append(
                f"entries per row: {self.min_row_entries} to {self.max_row_entries}, "
                f"mean {self.entries / self.rows:.4g}"
            )
        problems = counted(self.n_problems, "problem") if self.n_problems else "no problems"
        lines.append(problems + ("" if self.complete else "; not all was read"))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return text_html("\n".join([self.summary(), *self.problems]))


def check(
    inputs: Path | Iterable[Path],
    options: TextOptions | None = None,
    listener: Listener = ignore,
) -> CheckReport:
    """Read inputs as `split` does, and report what they contain and every problem.

    See `blocklinear.check` for arguments and errors. Of `options`, `on_error`, `expect_rows` and
    `expect_sha256` are ignored; too many features are noted only.
    """
    options, inputs = options or TextOptions(), path_list(inputs)
    check_options(options, TextOptions)
    changes = {
        "on_error": "skip", "max_errors": MAX_PROBLEMS, "max_features": None,
        "expect_rows": None, "expect_sha256": None,
    }  # fmt: skip
    chosen = _Options(**vars(options) | changes)
    report = CheckReport()
    readers = [RowReader([path], chosen, report.note, fleeting=True) for path in inputs]
    sizes = [reader.bytes_total for reader in readers]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    for reader in readers:
        try:
            for rows in reader:
                report.add(rows)
                listener(TextProgress(sum(r.bytes_read for r in readers), total, report.rows))
        except InputError as error:  # a damaged stream, a line too long, too many problems
            report.note(error)
            report.complete = report.complete and bool(reader.provenance)
        report.notes += reader.notes
    report.index_base = min((reader.index_base for reader in readers), default=1)
    n_features = 0 if report.max_index is None else report.max_index - report.index_base + 1
    if n_features > options.feature_limit and not options.hash_bits:
        report.notes.append(
            f"{counted(n_features, 'feature')}: split accepts {options.feature_limit} under this "
            "memory budget, unless it is given --max-features"
        )
    if not report.rows and not report.n_problems:
        report.note(InputError("no rows: nothing but blank lines or comments"))
    return report


def _ends(array: np.ndarray[Any, Any]) -> list[Any]:
    return [array.min().item(), array.max().item()] if len(array) else []


def _range(low: Any, high: Any, seen: list[Any]) -> tuple[Any, Any]:
    """Return the range of two ends, None if there are none yet, and of what was seen."""
    ends = [end for end in (low, high) if end is not None] + seen
    return (min(ends), max(ends)) if ends else (None, None)
