"""Choose one of the models of several costs, and summarise models."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from blocklinear.memory import exact_size
from blocklinear.numerals import counted, format_number

if TYPE_CHECKING:
    from blocklinear.model.linear import LinearModel
    from blocklinear.model.metrics import Score
    from blocklinear.store.store import BlockStore


def check_choice(source: str, store: "BlockStore", text: Mapping[str, Any]) -> None:
    """Read the rows that models will be compared on, before these are trained.

    Of a store of tables, `source` is a table, a folder of them, or a pattern.

    Raises
    ------
    InputError
        If the text is malformed or has no rows; or a table does not fit the recipe.
    StorageError
    """
    from blocklinear.errors import InputError
    from blocklinear.inputs.urls import shown_name
    from blocklinear.options import TextOptions
    from blocklinear.text import read_rows

    manifest = store.manifest
    if manifest.of_tables:
        from blocklinear.tables.split import labelled_rows

        found = labelled_rows(store, [source], TextOptions(**text))
    else:
        options = TextOptions(
            index_base=manifest.index_base, base_of="the store", hash_bits=manifest.hash_bits,
            **text,
        )  # fmt: skip
        found = iter(read_rows([source], options))
    if not sum(rows.n_rows for rows in found):
        what = f"{shown_name(source)}: has no rows to compare models on"
        raise InputError(what, "name a file with rows")


def best_on(
    source: str, models: "Sequence[LinearModel]", text: Mapping[str, Any], results: TextIO
) -> "LinearModel":
    """Print the score of each model on held-out rows; return the best, of equals the smallest C."""
    from blocklinear.model.predict import predict_stream
    from blocklinear.options import TextOptions

    def rank(found: "tuple[float, LinearModel]") -> tuple[float, float]:
        value, model = found
        return value, -model.metadata["C"]

    ranked = []
    for model in models:
        score: Score
        if "recipe" in model.metadata:
            from blocklinear.tables.predict import evaluate_tables

            score = evaluate_tables(model, [source], options=TextOptions(**text)).score
        else:
            how = TextOptions(**text)
            score = predict_stream(model, [source], os.devnull, text_options=how).score
        text_of_score = score.summary().replace("\n", ", ")
        print(f"C {format_number(model.metadata['C'])}: {text_of_score}", file=results)
        ranked.append((score.rank_value, model))
    return max(ranked, key=rank)[1]


def summary(model: "LinearModel") -> str:
    """Return a line about the certificate of a model, and the budget that it depends on."""
    found = model.metadata["certificate"]
    used = ""
    if model.solver.startswith("L1R_"):
        used = (
            f"; {(model.weights != 0.0).sum()} of {counted(model.weights.size, 'weight')} are not 0"
        )
    return (
        f"primal {found['primal']:.9g}, dual {found['dual']:.9g}, certified gap {found['gap']:.3g} "
        f"after {counted(model.metadata['outer_iterations'], 'outer iteration')} "
        f"with --memory {exact_size(model.metadata['memory_bytes'])}{used}"
    )
