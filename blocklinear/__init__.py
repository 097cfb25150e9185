"""Train linear models on data that does not fit in memory, to a certified optimum.

The public names are bound lazily: importing this package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blocklinear.api.prediction import predict
    from blocklinear.api.stores import add, check, split
    from blocklinear.api.training import cross_validate, train, train_grid
    from blocklinear.batches.writer import StoreWriter
    from blocklinear.errors import BlocklinearError, BlocklinearWarning
    from blocklinear.ingest.compact import compact
    from blocklinear.model.linear import LinearModel
    from blocklinear.model.predict import PredictionReport
    from blocklinear.options import AddOptions, SplitOptions, TextOptions, TrainOptions
    from blocklinear.selection.cross_validation import CrossValidation
    from blocklinear.store.changes import remove
    from blocklinear.store.store import BlockStore
    from blocklinear.training.garbage import collect_garbage

__version__ = "0.1.0"

_HOMES = {
    "AddOptions": "blocklinear.options",
    "BlockStore": "blocklinear.store.store",
    "BlocklinearError": "blocklinear.errors",
    "BlocklinearWarning": "blocklinear.errors",
    "CrossValidation": "blocklinear.selection.cross_validation",
    "LinearModel": "blocklinear.model.linear",
    "PredictionReport": "blocklinear.model.predict",
    "SplitOptions": "blocklinear.options",
    "StoreWriter": "blocklinear.batches.writer",
    "TextOptions": "blocklinear.options",
    "TrainOptions": "blocklinear.options",
    "add": "blocklinear.api.stores",
    "check": "blocklinear.api.stores",
    "cross_validate": "blocklinear.api.training",
    "collect_garbage": "blocklinear.training.garbage",
    "compact": "blocklinear.ingest.compact",
    "predict": "blocklinear.api.prediction",
    "remove": "blocklinear.store.changes",
    "split": "blocklinear.api.stores",
    "train": "blocklinear.api.training",
    "train_grid": "blocklinear.api.training",
}
__all__ = [
    "AddOptions",
    "BlockStore",
    "BlocklinearError",
    "BlocklinearWarning",
    "CrossValidation",
    "LinearModel",
    "PredictionReport",
    "SplitOptions",
    "StoreWriter",
    "TextOptions",
    "TrainOptions",
    "add",
    "check",
    "collect_garbage",
    "compact",
    "cross_validate",
    "predict",
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
