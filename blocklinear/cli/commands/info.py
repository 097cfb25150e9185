"""``blocklinear info``."""

import argparse
import json
import os
from typing import TYPE_CHECKING, Any

from blocklinear.cli.common_options import add_cache
from blocklinear.cli.stores import opened
from blocklinear.inputs.urls import is_url

if TYPE_CHECKING:
    from blocklinear.store.store import BlockStore


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "info",
        help="describe a store or a model",
        description="Describe a store, without reading its blocks, or a model.",
        epilog="exit status: 0 ok, 2 usage, 4 damaged, 5 written by a newer version, "
        "6 cannot be read",
    )
    parser.add_argument("path", metavar="STORE|MODEL", help="a path, or the URL of a store")
    add_cache(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if is_url(args.path) or os.path.isdir(args.path):
        store = opened(args, args.path)
        columns, line = _columns(store)
        if args.json:
            print(json.dumps(store.describe() | {"columns": columns}))
        else:
            print("\n".join([store.summary(), *line]))
        _print_recipe(args, store.recipe)
        return 0
    from blocklinear.model.linear import LinearModel

    model = LinearModel.load(args.path)
    if args.json:
        print(json.dumps(model.describe()))
    else:
        print(model.summary())
    _print_recipe(args, model.metadata.get("recipe"))
    return 0


def _columns(store: "BlockStore") -> tuple[dict[str, Any] | None, list[str]]:
    """Return what there is to say of the columns of a store, as JSON and in lines."""
    from blocklinear.columns.manifest import ColumnManifest
    from blocklinear.errors import DamagedError

    try:
        found = ColumnManifest.load(store.folder, store.manifest)
    except DamagedError:
        return {"damaged": True}, ["columns: damaged: `blocklinear transpose` makes them again"]
    if found is None:
        return None, []
    return {"files": len(found.blocks), "bytes": found.total_bytes}, [found.summary()]


def _print_recipe(args: argparse.Namespace, recipe: Any) -> None:
    """Describe for people how tables become rows, if they do."""
    if recipe is None or args.json:
        return
    from blocklinear.errors import DamagedError, shown
    from blocklinear.recipe import Recipe

    try:
        lines = Recipe.of_json(recipe).summary().splitlines()
    except ValueError as error:
        raise DamagedError(f"{args.path}: {error}", "make it again") from error
    for line in lines:
        print(shown(line))
