"""Some rows of a table, as Arrow has them."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Part:
    """Some rows of a file.

    Attributes
    ----------
    place : str               the file, and which part of it the rows are counted in
    first : int               number of the first row in it, counted from 1
    unit : str                what rows are there: "row" or "line"
    columns : dict of str to pyarrow Array
    n_rows : int
    bytes_read : int          of the file, about
    """

    place: str
    first: int
    unit: str
    columns: dict[str, Any]
    n_rows: int
    bytes_read: int

    def at(self, row: int) -> str:
        """Return where a row is, for people; rows are counted from 0 here."""
        return f"{self.place}, {self.unit} {self.first + row}"
