"""What is recorded of an input that was read."""

from typing import Any

from blocklinear.text.rows import Rows

_COUNTS = {
    "rows": "n_rows", "blank": "n_blank", "zeros": "n_zeros", "sorted_rows": "n_sorted",
    "merged_entries": "n_merged", "hash_collisions": "n_collisions", "ignored_qids": "n_qids",
}  # fmt: skip
"""The names of counts, and the attributes of `Rows` that are added up for them."""


class InputCounts:
    """What the rows of one input had.

    Parameters
    ----------
    lines : int               of the input, before the first rows

    Attributes
    ----------
    lines : int
    final_newline : bool      whether the last line ended with one
    """

    def __init__(self, lines: int = 0) -> None:
        self.lines = lines
        self.final_newline = True
        self._totals = dict.fromkeys(("skipped", *_COUNTS), 0)

    def add(self, rows: Rows, cut: bool = False) -> None:
        """Count the next rows, which have their faults yet; `cut` if their last line has no end."""
        self.final_newline = not cut
        self.lines += rows.n_lines
        self._totals["skipped"] += len(rows.faults)
        for name, count in _COUNTS.items():
            self._totals[name] += getattr(rows, count)

    def follow(self, other: "InputCounts") -> None:
        """Take in the counts of the lines that follow, whose `lines` began with those of these."""
        self.lines, self.final_newline = other.lines, other.final_newline
        for name, count in other._totals.items():
            self._totals[name] += count

    def record(self, file: dict[str, Any]) -> dict[str, Any]:
        """Return the provenance of the input, of whose file `file` says path, size and digests."""
        return file | {"lines": self.lines} | self._totals | {"final_newline": self.final_newline}
