"""What ``train`` does with the models of several costs."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blocklinear.memory import exact_size
from blocklinear.numerals import format_number

if TYPE_CHECKING:
    from blocklinear.model.linear import LinearModel
    from blocklinear.options import TrainOptions


def path_of(model: str, cost: float) -> str:
    """Return the file of one of several costs: ``MODEL.C=0.1``."""
    return f"{model}.C={format_number(cost)}"


def check_outputs(model: str, options: "TrainOptions", best_on: str | None) -> None:
    """Refuse what cannot be written, or chosen from."""
    from blocklinear.errors import StorageError, UsageError
    from blocklinear.model.linear import check_replaceable

    if best_on is not None and not options.costs:
        raise UsageError("--best-on chooses from several costs", "give -c 0.1,1,10")
    if best_on is not None and not os.path.exists(best_on):
        raise StorageError(f"{best_on}: no such file", "check its name")
    grid = options.costs if best_on is None else ()
    for path in [path_of(model, cost) for cost in grid] or [model]:
        check_replaceable(Path(path))


def best_on(source: str, models: "Sequence[LinearModel]", text: Mapping[str, Any]) -> "LinearModel":
    """Print how each model does on LIBSVM text; return the best, of equals the smallest C."""
    from blocklinear.model.predict import predict_stream
    from blocklinear.options import TextOptions

    def rank(found: "tuple[float, LinearModel]") -> tuple[float, float]:
        value, model = found
        return value, -model.metadata["C"]

    ranked = []
    for model in models:
        options = TextOptions(index_base=model.index_base, **text)
        score = predict_stream(model, [source], os.devnull, text_options=options).score
        print(f"C {format_number(model.metadata['C'])}: " + score.summary().replace("\n", ", "))
        ranked.append((score.rank_value, model))
    return max(ranked, key=rank)[1]


def save_all(models: "Sequence[LinearModel]", path: str, form: Any, grid: bool) -> None:
    """Write models: one, or a grid of them, each under the name of its C."""
    for model in models:
        model.save(path_of(path, model.metadata["C"]) if grid else path, format=form)


def summary(model: "LinearModel") -> str:
    """Return a line about the certificate of a model, and the budget that it depends on."""
    proof = model.metadata["certificate"]
    return (
        f"primal {proof['primal']:.9g}, dual {proof['dual']:.9g}, certified gap {proof['gap']:.3g} "
        f"after {model.metadata['outer_iterations']} outer iterations "
        f"with --memory {exact_size(model.metadata['memory_bytes'])}"
    )
