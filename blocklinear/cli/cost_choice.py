"""Choose one of the models of several costs, and summarise models."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from blocklinear.memory import exact_size
from blocklinear.numerals import format_number

if TYPE_CHECKING:
    from blocklinear.model.linear import LinearModel
    from blocklinear.store.manifest import Manifest


def check_choice(source: str, manifest: "Manifest", text: Mapping[str, Any]) -> None:
    """Read the rows that models will be compared on, before these are trained.

    Raises
    ------
    InputError
        If the text is malformed or has no rows.
    StorageError
    """
    from blocklinear.errors import InputError
    from blocklinear.options import TextOptions
    from blocklinear.text import read_rows

    options = TextOptions(
        index_base=manifest.index_base, base_of="the store", hash_bits=manifest.hash_bits, **text
    )
    if not sum(rows.n_rows for rows in read_rows([source], options)):
        raise InputError(f"{source}: has no rows to compare models on", "name a file with rows")


def best_on(
    source: str, models: "Sequence[LinearModel]", text: Mapping[str, Any], results: TextIO
) -> "LinearModel":
    """Print the score of each model on LIBSVM text; return the best, of equals the smallest C."""
    from blocklinear.model.predict import predict_stream
    from blocklinear.options import TextOptions

    def rank(found: "tuple[float, LinearModel]") -> tuple[float, float]:
        value, model = found
        return value, -model.metadata["C"]

    ranked = []
    for model in models:
        options = TextOptions(index_base=model.index_base, **text)
        score = predict_stream(model, [source], os.devnull, text_options=options).score
        text_of_score = score.summary().replace("\n", ", ")
        print(f"C {format_number(model.metadata['C'])}: {text_of_score}", file=results)
        ranked.append((score.rank_value, model))
    return max(ranked, key=rank)[1]


def summary(model: "LinearModel") -> str:
    """Return a line about the certificate of a model, and the budget that it depends on."""
    found = model.metadata["certificate"]
    used = ""
    if model.solver.startswith("L1R_"):
        used = f"; {(model.weights != 0.0).sum()} of {model.weights.size} weights are not 0"
    return (
        f"primal {found['primal']:.9g}, dual {found['dual']:.9g}, certified gap {found['gap']:.3g} "
        f"after {model.metadata['outer_iterations']} outer iterations "
        f"with --memory {exact_size(model.metadata['memory_bytes'])}{used}"
    )
