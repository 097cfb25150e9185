"""Options of `split` that are about tables."""

import argparse
import csv
from typing import TYPE_CHECKING, Any

from blocklinear.errors import UsageError

if TYPE_CHECKING:
    from blocklinear.tables.infer import TableOptions

_OTHERS = ("weight", "columns", "drop", "categories", "interactions", "standardize")
_FOR_TEXT: dict[str, object] = {
    "index_base": None, "unsorted": "fail", "duplicates": "fail", "ignore_qid": False,
    "require_final_newline": False, "max_line_bytes": None, "max_decompressed": None,
    "max_window": None, "expect_sha256": None, "sha256": False,
}  # fmt: skip
"""Options that say nothing of a table, and what they are where they are not given."""


def add_table_options(parser: Any) -> None:
    """Add the options that `table_options` takes up."""
    group = parser.add_argument_group(
        "tables",
        "With --target, INPUT is a table: files of Parquet, Arrow or CSV (also .gz), folders of "
        "them, or patterns. Numbers are features; text, booleans and dates are one feature for "
        "each value; lists of text are bags of words. Names are listed as in a line of CSV: one "
        "with a comma is written in double quotes.",
    )
    group.add_argument("--target", metavar="COLUMN", help="column of labels")
    group.add_argument("--weight", metavar="COLUMN", help="column of weights of rows")
    group.add_argument(
        "--columns",
        type=column_names,
        metavar="A,B,...",
        help="columns to take (default: all but an index of pandas)",
    )
    group.add_argument("--drop", type=column_names, metavar="A,B,...", help="columns to leave out")
    group.add_argument(
        "--categories",
        type=column_names,
        metavar="A,B,...",
        help="columns of integers that are categories, not numbers",
    )
    group.add_argument(
        "--interactions",
        type=column_names,
        metavar="A*B,...",
        help="pairs of columns to cross; takes --hash-bits",
    )
    group.add_argument(
        "--standardize",
        action="store_true",
        help="subtract the mean of each column of numbers, and divide by its deviation",
    )


def column_names(text: str) -> tuple[str, ...]:
    """Return the names in a line of CSV, where one with a comma is in double quotes."""
    try:
        found = tuple(name for name in _fields(text, ",") if name)
    except csv.Error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no line of CSV: {error}") from error
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} names no column")
    return found


def table_options(args: argparse.Namespace) -> "TableOptions | None":
    """Return what is asked of tables; None if there is none.

    UsageError is raised if something is asked of tables, and no target is named; or of text, and
    one is.
    """
    if args.target is None:
        for name in _OTHERS:
            if getattr(args, name):
                raise UsageError(f"--{name} is for tables", "name the column of labels: --target")
        return None
    refuse_text_options(args)
    from blocklinear.tables.infer import TableOptions  # late: --help stays fast

    return TableOptions(
        target=args.target,
        weight=args.weight,
        columns=args.columns or (),
        drop=args.drop or (),
        categories=args.categories or (),
        hash_bits=args.hash_bits,
        interactions=tuple(map(_pair, args.interactions or ())),
        standardize=args.standardize,
    )


def refuse_text_options(args: argparse.Namespace) -> None:
    """Refuse options that are about text, where tables are read.

    Raises UsageError.
    """
    if getattr(args, "weights", None) is not None:
        raise UsageError("--weights is for text", "name the column of weights: --weight")
    for name, usual in _FOR_TEXT.items():
        if getattr(args, name, None) not in (None, usual):
            raise UsageError(f"--{name.replace('_', '-')} is for text", "leave it out")


def _pair(text: str) -> tuple[str, str]:
    """Return the two names of ``A*B``; one with a star is in double quotes."""
    try:
        one, other = _fields(text, "*")
    except (csv.Error, ValueError):
        one = other = ""
    if not (one and other):
        raise UsageError(f"interaction {text!r} is not A*B", "name two columns: --interactions a*b")
    return one, other


def _fields(text: str, delimiter: str) -> list[str]:
    (fields,) = csv.reader([text], delimiter=delimiter, strict=True)
    return fields
