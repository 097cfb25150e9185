"""LIBSVM text in, rows out: `read_rows` is the door."""

from blocklinear.options import TextOptions
from blocklinear.text.reader import RowReader, read_rows
from blocklinear.text.rows import Decimals, Rows
from blocklinear.text.weights import WeightReader

__all__ = [
    "Decimals",
    "RowReader",
    "Rows",
    "TextOptions",
    "WeightReader",
    "read_rows",
]
