"""Open the store that a command works on."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blocklinear.cli.ahead import load_for_splitting, reshapes
from blocklinear.cli.common_options import fields_given, given
from blocklinear.cli.console import Console
from blocklinear.cli.table_options import refuse_text_options
from blocklinear.inputs.urls import is_url

if TYPE_CHECKING:
    from blocklinear.store.store import BlockStore


def opened(args: argparse.Namespace, path: str) -> "BlockStore":
    """Open the store at a path or URL, with the options of `add_cache`."""
    from blocklinear.store.store import BlockStore

    where: Any = given(cache=args.cache, cache_bytes=args.cache_size)
    return BlockStore.open(path, **where)


def open_store(args: argparse.Namespace, console: Console) -> "BlockStore":
    """Open the store `args.store`; if that is LIBSVM text, the store made of it."""
    from blocklinear.errors import MismatchError
    from blocklinear.ingest.text_store import store_of
    from blocklinear.options import SplitOptions, TextOptions

    options = SplitOptions(text=TextOptions(**fields_given(args, TextOptions)))
    if Path(args.store).is_file():
        load_for_splitting(options.dtype, args.quiet, reshapes(options.text))
    try:
        is_remote = is_url(args.store)
        store = opened(args, args.store) if is_remote else store_of(args.store, options, console)
    finally:
        console.close()
    base, manifest = args.index_base, store.manifest
    if manifest.of_tables:
        refuse_text_options(args)
    if base in (0, 1) and not manifest.hash_bits and manifest.index_base != base:
        raise MismatchError(
            f"{store.name}: the index base of the store is {manifest.index_base}, not {base}",
            f"leave out --index-base, or split again with --index-base {base} --force",
        )
    return store
