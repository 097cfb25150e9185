"""``blocklinear add``."""

import argparse
from typing import TYPE_CHECKING, Any

from blocklinear.cli.ahead import load_for_splitting, reshapes
from blocklinear.cli.common_options import add_budget, fields_given
from blocklinear.cli.console import Console
from blocklinear.cli.table_options import refuse_text_options
from blocklinear.cli.text_options import (
    WEIGHTS_HELP,
    add_limits,
    add_reading,
    add_row_options,
    add_sha256,
)
from blocklinear.numerals import counted

if TYPE_CHECKING:
    from blocklinear.events import Event


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "add",
        help="add LIBSVM text, or tables, to a store",
        description="Read LIBSVM text once, or tables if STORE is made of tables, and write the "
        "rows to new blocks of STORE: all of them, or none if anything fails. Index base, hashing, "
        "normalisation, precision, compression and seed are those of the store, and so is what is "
        "made of columns; there may be new features and labels.",
        epilog="exit status: 0 ok, 2 usage, 3 malformed input, 4 damaged store, 5 the store has an "
        "input already, or other rows in batch NAME, or another index base, or weights where the "
        "input has none, or is of a newer version, 6 I/O or no space, 7 memory budget, 8 another "
        "process writes to the store; unless 0, the store is as it was",
    )
    parser.add_argument("store", metavar="STORE", help="folder made by `split`")
    parser.add_argument(
        "inputs", nargs="+", metavar="INPUT", help="LIBSVM text, or - for stdin; or tables"
    )
    parser.add_argument("--batch", metavar="NAME", help="name of the batch (default: b2, b3, ...)")
    parser.add_argument("--weights", metavar="FILE", help=WEIGHTS_HELP)
    parser.add_argument(
        "--if-absent",
        action="store_true",
        help="do nothing if the store has a batch (NAME, if given) of exactly these INPUTs in this "
        "order, by size and digest; if it has only some of them, the command is refused",
    )
    parser.add_argument(
        "--allow-duplicate", action="store_true", help="add a file that the store already has"
    )
    parser.add_argument(
        "--blocks",
        type=int,
        metavar="M",
        help="number of blocks (default: blocks as large as the others)",
    )
    parser.add_argument(
        "--index-base",
        type=int,
        metavar="0|1",
        help="refuse a store with another index base (default: that of the store)",
    )
    add_row_options(parser)
    add_limits(parser, "STORE/skipped-NAME.txt")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    add_budget(parser)
    add_sha256(parser)
    add_reading(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from blocklinear.events import BatchPresent
    from blocklinear.ingest.add import add
    from blocklinear.options import AddOptions, TextOptions
    from blocklinear.store.store import BlockStore

    text = TextOptions(**fields_given(args, TextOptions))
    options = AddOptions(text=text, **fields_given(args, AddOptions))
    manifest = BlockStore.open(args.store).manifest
    reshaping = reshapes(options.text) or manifest.hash_bits > 0 or manifest.normalize != "none"
    load_for_splitting(manifest.dtype, args.quiet, reshaping, manifest.of_tables)
    present: list[str] = []
    with Console(args.quiet, "add") as console:

        def listen(event: "Event") -> None:
            if isinstance(event, BatchPresent):
                present.append(event.name)
            console(event)

        if manifest.of_tables:
            from blocklinear.tables.split import add_tables

            refuse_text_options(args)
            store, _ = add_tables(args.store, args.inputs, options, listen)
        else:
            store = add(args.store, args.inputs, options, listen)
    if present:
        rows = counted(store.manifest.n_rows, "row")
        print(f"batch {present[0]} is in the store already, which has {rows}")
        return 0
    added = store.batches()[-1]
    print(
        f"batch {added['name']}: {counted(added['rows'], 'row')}, "
        f"{counted(added['nnz'], 'entry', 'entries')} in {counted(len(added['blocks']), 'block')}; "
        f"the store has {counted(store.manifest.n_rows, 'row')}"
    )
    return 0
