"""Options of the commands that read text: how lines are read, and what is refused."""

import argparse
from typing import Any

from blocklinear.cli.common_options import size

WEIGHTS_HELP = (
    "file with one number per line, the weight of each row of all INPUTs; plain or compressed. "
    "It multiplies C of the row; 0 leaves the row out of training"
)


def add_row_options(parser: Any) -> None:
    """Add ``--unsorted`` and ``--duplicates``."""
    parser.add_argument(
        "--unsorted",
        default="fail",
        choices=("fail", "sort"),
        help="what to do with a row whose indices do not increase (default fail)",
    )
    parser.add_argument(
        "--duplicates",
        default="fail",
        choices=("fail", "sum"),
        help="what to do with an index that is repeated in a row (default fail)",
    )


def add_limits(parser: Any, listed_in: str) -> None:
    """Add ``--on-error``, ``--max-errors`` and ``--max-features``."""
    parser.add_argument(
        "--on-error",
        default="fail",
        choices=("fail", "skip"),
        help="what to do with a malformed line, or a row of a table without a target (default "
        f"fail); skip: leave it out, and list it in {listed_in}",
    )
    parser.add_argument(
        "--max-errors",
        type=int,
        default=1000,
        metavar="K",
        help="largest number of lines or rows that may be skipped (default 1000)",
    )
    parser.add_argument(
        "--max-features",
        type=int,
        metavar="N",
        help="refuse an index that makes more features (default: as many as training can hold in "
        "--memory)",
    )


def add_index_base(parser: Any, meaning: str = "default 1") -> None:
    """Add ``--index-base``."""
    parser.add_argument(
        "--index-base",
        type=_index_base,
        metavar="0|1|auto",
        help=f"smallest feature index ({meaning}); auto: 0 if an index 0 occurs, else 1 "
        "(files only)",
    )


def _index_base(text: str) -> int | str:
    return text if text == "auto" else int(text)


def add_reading(parser: argparse.ArgumentParser, expecting: bool = True) -> None:
    """Add options about which text is accepted.

    Parameters
    ----------
    expecting : bool          whether to add the options about what the input should be
    """
    group = parser.add_argument_group("accepted input")
    group.add_argument(
        "--ignore-qid", action="store_true", help="ignore qid:N after a label (default: refuse)"
    )
    group.add_argument(
        "--require-final-newline",
        action="store_true",
        help="refuse text whose last line may be truncated (default: warn)",
    )
    group.add_argument(
        "--max-line-bytes",
        type=size,
        metavar="SIZE",
        help="refuse longer lines (default 64M, or a quarter of --memory less 80M)",
    )
    group.add_argument(
        "--max-decompressed",
        type=size,
        metavar="SIZE",
        help="refuse a compressed file that holds more text (default: no bound)",
    )
    group.add_argument(
        "--max-window",
        type=size,
        metavar="SIZE",
        help="refuse xz or zst streams that need more memory to decompress (default 128M, or a "
        "quarter of --memory)",
    )
    if expecting:
        group.add_argument(
            "--expect-rows", type=int, metavar="N", help="refuse input with another number of rows"
        )
        group.add_argument(
            "--expect-sha256", metavar="HEX", help="refuse an input with another SHA-256"
        )


def add_text_options(parser: argparse.ArgumentParser, files: str) -> None:
    """Add the options of text that a command reads besides a store.

    Parameters
    ----------
    files : str               which arguments may be such text
    """
    group = parser.add_argument_group(f"how LIBSVM text is read ({files})")
    add_index_base(group, meaning="default: that of the store, or 1")
    add_row_options(group)
    add_reading(parser, expecting=False)


def add_sha256(parser: argparse.ArgumentParser) -> None:
    """Add ``--sha256``."""
    parser.add_argument(
        "--sha256",
        action="store_true",
        help="record the SHA-256 of each input in the manifest, for provenance",
    )
