"""The weights of a model by name, the largest first, as JSON for other programs.

`convert --to json` writes one object: `format` ("blocklinear weights"), `version` (1), `solver`,
`C`, `nu` (of a one-class SVM, which has no C), `l1_ratio` (of L1 regularisation, else null),
`classes` (the labels as given), `features`, `nonzero_weights`, `bias` (null if there is none),
`rho`, `normalize`, `certificate`, `recipe` (of tables, without its dictionary) and `decisions`. Of
each decision value there is its `class` (that of values above 0; null in regression), its
`bias_weight`, and `weights`: [name, weight] by falling absolute value, one to a line, so that
millions can be read line by line. The name is `column=value` or `column` where there is a recipe,
else the name of the feature, else its number in text, or `hash N`.
"""

import json
from typing import IO, Any

import numpy as np

from blocklinear.errors import UsageError
from blocklinear.model.linear import LinearModel
from blocklinear.model.parameters import Floats
from blocklinear.model.top_weights import largest
from blocklinear.numerals import counted

MAGIC = b'{"format": "blocklinear weights"'
VERSION = 1


def write_weights(model: LinearModel, stream: IO[bytes], most: int | None = None) -> None:
    """Write the weights that are not 0, by name.

    UsageError is raised if `most` is below 1; MismatchError if the recipe of a model of tables is
    not that of its weights.

    Parameters
    ----------
    stream : binary file
    most : int, optional      how many of each class, those of the largest absolute values; None for
                              all
    """
    if most is not None and most < 1:
        raise UsageError(
            f"{counted(most, 'weight is', 'weights are')} asked for",
            "give 1 or more, or none for all",
        )
    facts = {
        "version": VERSION,
        "solver": model.solver,
        "C": model.metadata.get("C"),
        "nu": model.metadata.get("nu"),
        "l1_ratio": model.metadata.get("l1_ratio"),
        "classes": [_class(model, k) for k in range(len(model.outcomes))],
        "features": model.n_features,
        "nonzero_weights": int(np.count_nonzero(model.weights)),
        "bias": model.bias if model.bias >= 0 else None,
        "rho": model.rho,
        "normalize": model.normalize,
        "certificate": model.metadata.get("certificate"),
        "recipe": _without_dictionary(model.metadata.get("recipe")),
    }
    stream.write(MAGIC)
    for name, value in facts.items():
        stream.write(f",\n {json.dumps(name)}: {json.dumps(value, allow_nan=False)}".encode())
    stream.write(b',\n "decisions": [')
    for k in range(model.n_columns):
        stream.write(b"," * (k > 0) + b"\n")
        _write_column(model, k, stream, most)
    stream.write(b"\n ]\n}\n")


def _write_column(model: LinearModel, k: int, stream: IO[bytes], most: int | None) -> None:
    """Write what one decision value is made of."""
    weights, bias = model.weights[:, k], None
    if model.bias >= 0:
        bias = float(model.bias_weights[k])
    head = {"class": _class(model, k) if model.outcomes else None, "bias_weight": bias}
    text = json.dumps(head, allow_nan=False).removesuffix("}")
    stream.write(f'  {text}, "weights": ['.encode())
    order = _largest_first(weights) if most is None else largest(model.weights, k, most)
    for start in range(0, len(order), 10_000):
        places = order[start : start + 10_000]
        lines = [
            json.dumps([model.name_or_index(j), w], allow_nan=False)
            for j, w in zip(places.tolist(), weights[places].tolist(), strict=True)
        ]
        stream.write(b"," * (start > 0) + b"\n   " + ",\n   ".join(lines).encode())
    stream.write(b"\n  ]}")


def _largest_first(weights: Floats) -> Any:
    """Return the places of weights that are not 0, by absolute value, equal ones as they come."""
    places = np.flatnonzero(weights)
    return places[np.argsort(-np.abs(weights[places]), kind="stable")]


def _class(model: LinearModel, k: int) -> Any:
    label = model.outcomes[k]
    return model.named.get(label, int(label) if float(label).is_integer() else label)


def _without_dictionary(recipe: Any) -> Any:
    """Return the recipe of tables without the values, which the names of weights tell."""
    return None if recipe is None else {k: v for k, v in recipe.items() if k != "dictionary"}
