"""Train linear models on data that does not fit in memory, to a certified optimum.

The public names are bound lazily: importing this package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blocklinear.batches.writer import StoreWriter
    from blocklinear.errors import BlocklinearError
    from blocklinear.ingest.add import add
    from blocklinear.ingest.compact import compact
    from blocklinear.ingest.split import split
    from blocklinear.model.linear import LinearModel
    from blocklinear.options import AddOptions, SplitOptions, TextOptions, TrainOptions
    from blocklinear.selection.cross_validation import cross_validate
    from blocklinear.selection.grid import train_grid
    from blocklinear.store.changes import remove
    from blocklinear.store.store import BlockStore
    from blocklinear.text.check import check
    from blocklinear.training.garbage import collect_garbage
    from blocklinear.training.loop import train

__version__ = "0.1.0"

_HOMES = {
    "AddOptions": "blocklinear.options",
    "BlockStore": "blocklinear.store.store",
    "BlocklinearError": "blocklinear.errors",
    "LinearModel": "blocklinear.model.linear",
    "SplitOptions": "blocklinear.options",
    "StoreWriter": "blocklinear.batches.writer",
    "TextOptions": "blocklinear.options",
    "TrainOptions": "blocklinear.options",
    "add": "blocklinear.ingest.add",
    "check": "blocklinear.text.check",
    "cross_validate": "blocklinear.selection.cross_validation",
    "collect_garbage": "blocklinear.training.garbage",
    "compact": "blocklinear.ingest.compact",
    "remove": "blocklinear.store.changes",
    "split": "blocklinear.ingest.split",
    "train": "blocklinear.training.loop",
    "train_grid": "blocklinear.selection.grid",
}
__all__ = [
    "AddOptions",
    "BlockStore",
    "BlocklinearError",
    "LinearModel",
    "SplitOptions",
    "StoreWriter",
    "TextOptions",
    "TrainOptions",
    "add",
    "check",
    "collect_garbage",
    "compact",
    "cross_validate",
    "remove",
    "split",
    "train",
    "train_grid",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'blocklinear' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
