"""Train linear models on data that does not fit in memory, to a certified optimum.

The public names are bound lazily: importing this package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blocklinear.api.planning import plan
    from blocklinear.api.prediction import evaluate, predict
    from blocklinear.api.reports import write_report
    from blocklinear.api.stores import add, check, split, transpose
    from blocklinear.api.training import cross_validate, train, train_grid
    from blocklinear.batches.writer import StoreWriter
    from blocklinear.errors import BlocklinearError, BlocklinearWarning
    from blocklinear.ingest.compact import compact
    from blocklinear.model.evaluation import Evaluation
    from blocklinear.model.linear import LinearModel
    from blocklinear.model.paths import plot_path
    from blocklinear.model.predict import PredictionReport
    from blocklinear.options import AddOptions, SplitOptions, TextOptions, TrainOptions
    from blocklinear.planning.report import PlanReport
    from blocklinear.report.history import RunHistory, read_log
    from blocklinear.selection.cross_validation import CrossValidation
    from blocklinear.store.changes import remove
    from blocklinear.store.store import BlockStore
    from blocklinear.tables.serve import TablePredictor
    from blocklinear.training.garbage import collect_garbage

__version__ = "0.1.0"

_HOMES = {
    "AddOptions": "blocklinear.options",
    "BlockStore": "blocklinear.store.store",
    "BlocklinearError": "blocklinear.errors",
    "BlocklinearWarning": "blocklinear.errors",
    "CrossValidation": "blocklinear.selection.cross_validation",
    "Evaluation": "blocklinear.model.evaluation",
    "LinearModel": "blocklinear.model.linear",
    "PlanReport": "blocklinear.planning.report",
    "PredictionReport": "blocklinear.model.predict",
    "RunHistory": "blocklinear.report.history",
    "SplitOptions": "blocklinear.options",
    "StoreWriter": "blocklinear.batches.writer",
    "TablePredictor": "blocklinear.tables.serve",
    "TextOptions": "blocklinear.options",
    "TrainOptions": "blocklinear.options",
    "add": "blocklinear.api.stores",
    "check": "blocklinear.api.stores",
    "cross_validate": "blocklinear.api.training",
    "collect_garbage": "blocklinear.training.garbage",
    "compact": "blocklinear.ingest.compact",
    "evaluate": "blocklinear.api.prediction",
    "plan": "blocklinear.api.planning",
    "plot_path": "blocklinear.model.paths",
    "predict": "blocklinear.api.prediction",
    "read_log": "blocklinear.report.history",
    "remove": "blocklinear.store.changes",
    "split": "blocklinear.api.stores",
    "train": "blocklinear.api.training",
    "train_grid": "blocklinear.api.training",
    "transpose": "blocklinear.api.stores",
    "write_report": "blocklinear.api.reports",
}
__all__ = [
    "AddOptions",
    "BlockStore",
    "BlocklinearError",
    "BlocklinearWarning",
    "CrossValidation",
    "Evaluation",
    "LinearModel",
    "PlanReport",
    "PredictionReport",
    "RunHistory",
    "SplitOptions",
    "StoreWriter",
    "TablePredictor",
    "TextOptions",
    "TrainOptions",
    "add",
    "check",
    "collect_garbage",
    "compact",
    "cross_validate",
    "evaluate",
    "plan",
    "plot_path",
    "predict",
    "read_log",
    "remove",
    "split",
    "train",
    "train_grid",
    "transpose",
    "write_report",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'blocklinear' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
