"""Choose one of the models of several costs, and summarise models."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from blocklinear.memory import exact_size
from blocklinear.numerals import counted, format_number

if TYPE_CHECKING:
    from blocklinear.model.linear import LinearModel
    from blocklinear.model.metrics import Score
    from blocklinear.options import TrainOptions
    from blocklinear.store.store import BlockStore


def check_choice(
    source: str, store: "BlockStore", options: "TrainOptions", text: Mapping[str, Any]
) -> None:
    """Read the rows that models will be compared on, before these are trained.

    Of a store of tables, `source` is a table, a folder of them, or a pattern.

    InputError is raised if the text is malformed or has no rows; or a table does not fit the
    recipe. MemoryBudgetError is raised if there is no memory for all models and the rows on their
    way. Raises StorageError, too.
    """
    from blocklinear.errors import InputError
    from blocklinear.ingest.provenance import label_places
    from blocklinear.inputs.urls import shown_name
    from blocklinear.options import TextOptions
    from blocklinear.text import read_rows
    from blocklinear.training.memory_plan import bytes_of_models

    manifest = store.manifest
    with label_places(store):
        n_bytes, n_columns = bytes_of_models(manifest, options)
    text = _text_next_to(n_bytes, n_columns, manifest.of_tables, text)
    if manifest.of_tables:
        from blocklinear.model.predict import taken_by_model
        from blocklinear.tables.arrow import TableMemory
        from blocklinear.tables.split import labelled_rows

        how = TextOptions(**text)
        memory = TableMemory(how.memory_bytes, weights_bytes=taken_by_model(n_bytes, n_columns))
        found, _ = labelled_rows(store, [source], how, memory)
    else:
        how = TextOptions(
            index_base=manifest.index_base, base_of="the store", hash_bits=manifest.hash_bits,
            **text,
        )  # fmt: skip
        found = iter(read_rows([source], how))
    if not sum(rows.n_rows for rows in found):
        what = f"{shown_name(source)}: has no rows to compare models on"
        raise InputError(what, "name a file with rows")


def _text_next_to(
    n_bytes: int, n_columns: int, of_tables: bool, text: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return options for reading, with the memory that weights of `n_bytes` leave."""
    from blocklinear.model.predict import text_memory
    from blocklinear.tables.arrow import ARROW_BYTES

    if "memory_bytes" not in text:
        return text
    least: tuple[Any, ...] = (2 * ARROW_BYTES, "tables") if of_tables else ()
    return {**text, "memory_bytes": text_memory(n_bytes, n_columns, text["memory_bytes"], *least)}


def best_on(
    source: str, models: "Sequence[LinearModel]", text: Mapping[str, Any], results: TextIO
) -> "LinearModel":
    """Print the score of each model on held-out rows; return the best, of equals the smallest C."""
    from blocklinear.model.predict import predict_stream
    from blocklinear.options import TextOptions

    def rank(found: "tuple[float, LinearModel]") -> tuple[float, float]:
        value, model = found
        return value, -model.metadata["C"]

    n_bytes, of_tables = sum(m.weights.nbytes for m in models), "recipe" in models[0].metadata
    text = _text_next_to(n_bytes, models[0].n_columns, of_tables, text)
    ranked = []
    for model in models:
        score: Score
        if of_tables:
            from blocklinear.tables.predict import evaluate_tables

            score = evaluate_tables(model, [source], options=TextOptions(**text)).score
        else:
            text_options = TextOptions(**text)
            score = predict_stream(model, [source], os.devnull, text_options=text_options).score
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
