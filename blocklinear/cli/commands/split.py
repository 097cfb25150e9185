"""``blocklinear split``."""

import argparse
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from blocklinear.cli.ahead import load_for_splitting, reshapes
from blocklinear.cli.cluster_options import add_split_cluster, split_client
from blocklinear.cli.common_options import add_budget, fields_given
from blocklinear.cli.console import Console
from blocklinear.cli.stopper import Stopper
from blocklinear.cli.table_options import add_table_options, table_options
from blocklinear.cli.text_options import (
    WEIGHTS_HELP,
    add_index_base,
    add_limits,
    add_reading,
    add_row_options,
    add_sha256,
)

if TYPE_CHECKING:
    from blocklinear.options import SplitOptions
    from blocklinear.store.store import BlockStore
    from blocklinear.tables.infer import TableOptions


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "split",
        help="stream LIBSVM text, or tables, into a store of compressed blocks",
        description="Read LIBSVM text once (plain, gz, bz2, xz, zst; - is standard input), or "
        "tables (Parquet, Arrow, CSV) with --target, and write the rows to randomly chosen blocks "
        "of a store.",
        epilog="exit status: 0 ok, 2 usage, 3 malformed input (nothing is left), 5 STORE exists, "
        "or --force would delete what is not part of a store, 6 I/O or no space, 7 memory budget, "
        "8 another process is splitting to STORE, 9 the cluster of --dask is gone",
    )
    parser.add_argument(
        "inputs", nargs="+", metavar="INPUT", help="LIBSVM text, or - for stdin; or tables"
    )
    parser.add_argument("store", metavar="STORE", help="folder to make")
    parser.add_argument(
        "--blocks", type=int, metavar="M", help="number of blocks (default: from --memory)"
    )
    parser.add_argument(
        "--batch", default="b1", metavar="NAME", help="name of the batch, for `remove` (default b1)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of the random assignment (default 0)"
    )
    parser.add_argument(
        "--order",
        default="random",
        choices=("random", "file"),
        help="how rows are assigned to blocks (default random)",
    )
    parser.add_argument("--weights", metavar="FILE", help=WEIGHTS_HELP)
    add_index_base(parser)
    add_row_options(parser)
    add_table_options(parser)
    parser.add_argument(
        "--hash-bits",
        type=int,
        default=0,
        metavar="B",
        help="hash indices to 2^B features (B from 1 to 31); values of a row whose features "
        "collide are added",
    )
    parser.add_argument(
        "--normalize",
        default="none",
        choices=("none", "l2"),
        help="l2: divide each row by its Euclidean norm, in training and prediction (default none)",
    )
    parser.add_argument(
        "--dtype",
        default="float64",
        choices=("float64", "float32"),
        help="precision of values (default float64)",
    )
    parser.add_argument(
        "--compression",
        default="zstd:1",
        metavar="none|zstd:LEVEL",
        help="of blocks (default zstd:1)",
    )
    add_limits(parser, "STORE/skipped.txt (with --batch in skipped-NAME.txt)")
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace STORE in one step, if it is a store and holds no other files",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    add_budget(parser)
    add_split_cluster(parser)
    add_sha256(parser)
    add_reading(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from blocklinear.errors import UsageError
    from blocklinear.options import SplitOptions, TextOptions

    if args.store == "-":
        raise UsageError("a store is a folder: it cannot go to standard output", "name a folder")
    options = SplitOptions(
        text=TextOptions(**fields_given(args, TextOptions)), **fields_given(args, SplitOptions)
    )
    table = table_options(args)
    reshaping = reshapes(options.text) or options.normalize != "none"
    load = partial(load_for_splitting, args.dtype, reshaping=reshaping, tables=table is not None)
    with split_client(args, options, table is not None, load) as (client, memory):
        if args.memory is None and memory is not None:
            options = replace(options, text=replace(options.text, memory_bytes=memory))
        return _split(args, options, table, client)


def _split(
    args: argparse.Namespace,
    options: "SplitOptions",
    table: "TableOptions | None",
    client: Any,
) -> int:
    started = time.perf_counter()
    with Console(args.quiet) as console:
        if client is not None:
            store = _on_cluster(args, options, client, console)
        elif table is None:
            from blocklinear.ingest.split import split

            store = split(args.inputs, args.store, options, console)
        else:
            from blocklinear.tables.split import split_tables

            store = split_tables(args.inputs, args.store, table, options, console)
    print(f"{store.summary()}\nsplit in {time.perf_counter() - started:.2f} s")
    return 0


def _on_cluster(
    args: argparse.Namespace, options: "SplitOptions", client: Any, console: Console
) -> "BlockStore":
    """Split on workers; a signal ends that where it can be ended, as Dask could swallow it."""
    from blocklinear.cluster.split import split
    from blocklinear.errors import StoppedError

    with Stopper() as stopper:
        try:
            return split(client, args.inputs, args.store, options, console, stopper.asked)
        except StoppedError:
            stopper.send_again()
            raise
