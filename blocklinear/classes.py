"""Labels as they were given, where the numbers that they have in blocks are not they themselves.

A label is a *code*, a *class* and a *name*, which differ only where the user did not give numbers:

    code     float64, its number in blocks and models                       1.0   1.0     0.0
    class    the code; if text or an integer beyond 2**53 was given, that   yes   2**60   0.0
    name     the class; of a boolean column `false` or `true`               yes   2**60   false

Codes: `labels` of stores and models; `LinearModel.outcomes` is what `predict` may choose from, that
is `labels`, or 1 and -1 of a one-class SVM. From codes to classes, where these differ: `classes` of
models, and `Manifest.given` of stores; `as_given` and `given_labels` apply them to codes, and
`LinearModel.given_outcomes` is that of `outcomes`. From codes to names, likewise: `named` of stores
and models, by `named_labels`; `code_text` applies it to one code, and `LinearModel.outcome_names`
is that of `outcomes`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.numerals import format_number

Class = str | int
Classes = Mapping[float, Class]


def to_json(classes: Classes) -> dict[str, Class]:
    """Return classes as JSON holds them."""
    return {format_number(code): label for code, label in classes.items()}


def from_json(content: Any) -> dict[float, Class]:
    """Return classes from JSON.

    ValueError is raised if it is not what `to_json` gives: labels that differ, all text or all
    integers.
    """
    if type(content) is not dict:
        raise ValueError("the classes are no object")
    classes = {float(code): label for code, label in content.items()}
    if list(to_json(classes)) != list(content):
        raise ValueError("the number of a class is not as written by blocklinear")
    kinds = {type(label) for label in classes.values()}
    if len(set(classes.values())) != len(classes) or (kinds and kinds not in ({str}, {int})):
        raise ValueError("the classes are not distinct texts, or integers")
    return classes


def as_given(codes: NDArray[np.float64], classes: Classes) -> NDArray[Any]:
    """Return labels as they were given.

    Parameters
    ----------
    codes : float64[n]        numbers that labels have in blocks

    Returns
    -------
    ndarray, shape (n,)
        The numbers themselves where none has a class; else text, or integers: int64 or uint64 if
        they fit, Python's otherwise.
    """
    if not classes:
        return codes
    table, places = np.unique(codes, return_inverse=True)
    labels = [classes.get(code, int(code)) for code in table.tolist()]
    if not all(isinstance(label, int) for label in labels):
        return np.array(list(map(str, labels)) or [""])[places]
    try:
        found = np.array(labels, np.int64)
    except OverflowError:
        try:
            found = np.array(labels, np.uint64)
        except OverflowError:
            found = np.array(labels, object)
    return found[places]


def given_labels(codes: Sequence[float], classes: Classes) -> list[Any]:
    """Return labels as they were given, all of one kind, as `as_given` does."""
    found: list[Any] = as_given(np.array(codes, np.float64), classes).tolist()
    return found


def named_labels(recipe: Any, classes: Classes) -> Classes:
    """Return labels as they are named, by their numbers; of a boolean target `false` and `true`.

    Parameters
    ----------
    recipe : object or None   of a table, as JSON has it; anything else changes nothing
    classes : mapping of float to str or int      of the store or the model
    """
    target = recipe.get("target") if isinstance(recipe, Mapping) else None
    if isinstance(target, Mapping) and target.get("kind") == "boolean":
        return {0.0: "false", 1.0: "true"}
    return classes


def code_text(code: float, classes: Classes) -> str:
    """Return a label for people."""
    return label_text(classes.get(code, code))


def label_text(label: Class | float) -> str:
    """Return a label as it was given, for people."""
    return format_number(label) if isinstance(label, float) else str(label)
