"""The recipe: which features are made of which column of a table.

Features are numbered from 0 in this order: the numbers, as the columns come; for each of them that
its value is missing; then either the values of categories and words, as they first appeared (row by
row, then column by column), or so many as there are hashes. Crosses are always hashed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from blocklinear.errors import MismatchError, UsageError, shown
from blocklinear.numerals import counted
from blocklinear.store import shapes

VERSION = 1
MISSING = "missing"
"""What a missing value is called, and hashed as."""
KINDS = ("number", "text", "category", "boolean", "date", "timestamp", "words")
"""A category is a column of integers, text or booleans that was asked to be one."""
TARGET_KINDS = ("number", "boolean", "text")
HASH = "splitmix64"
"""See `tables.hashing`."""
MOST_VALUES = 1 << 20
"""Values that a dictionary may have, of all columns."""
LONGEST_NAME = 1000

_COLUMN = shapes.fields(
    {
        "name": shapes.text,
        "kind": shapes.choice(*KINDS),
        "mean": shapes.maybe(shapes.number),
        "scale": shapes.maybe(shapes.number),
    }
)
_TARGET = shapes.fields({"name": shapes.text, "kind": shapes.choice(*TARGET_KINDS)})
_RECIPE = shapes.fields(
    {
        "version": shapes.integer(1),
        "columns": shapes.items(_COLUMN),
        "target": _TARGET,
        "weight": shapes.maybe(shapes.text),
        "hash": shapes.maybe(shapes.choice(HASH)),
        "hash_bits": shapes.integer(0, 31),
        "dictionary": shapes.items(shapes.row(shapes.count, shapes.text)),
        "interactions": shapes.items(shapes.row(shapes.count, shapes.count)),
    }
)


@dataclass(frozen=True)
class Column:
    """One column of a table that features are made of."""

    name: str
    kind: str  # one of `KINDS`
    mean: float | None = None  # subtracted from numbers
    scale: float | None = None  # what they are divided by then


@dataclass(frozen=True)
class Target:
    """The column that rows have their labels from."""

    name: str
    kind: str  # one of `TARGET_KINDS`


@dataclass(frozen=True)
class Recipe:
    """Which features are made of which column."""

    columns: tuple[Column, ...]
    target: Target
    weight: str | None = None  # the column of weights
    hash_bits: int = 0  # categories are hashed to so many bits; 0: by the dictionary
    # the column, by its place, and the value of each feature
    dictionary: tuple[tuple[int, str], ...] = ()
    # pairs of columns, by their places, that are crossed
    interactions: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise UsageError(f"recipe of a table: {problem}")

    def _problems(self) -> Sequence[str]:
        names, problems = self.names, []
        if not self.columns:
            problems.append("no column is left to make features of")
        used = [*names, self.target.name, *([self.weight] if self.weight is not None else [])]
        if len(set(used)) != len(used):
            problems.append("a column is used twice")
        if any(not name or len(name) > LONGEST_NAME for name in used):
            problems.append(f"a column has no name, or one of over {LONGEST_NAME} characters")
        if any((c.mean is None) != (c.scale is None) for c in self.columns):
            problems.append("a column has a mean or a scale alone")
        if any(c.scale is not None and (c.kind != "number" or c.scale <= 0) for c in self.columns):
            problems.append("a scale is not above 0, or not of numbers")
        if self.interactions and not self.hash_bits:
            problems.append("crosses are hashed: say to how many bits")
        if self.hash_bits and self.dictionary:
            problems.append("categories are hashed, or have a dictionary")
        n, hashable = len(self.columns), ("number", *_ONE_OF)
        if any(max(pair) >= n or pair[0] == pair[1] for pair in self.interactions) or any(
            self.columns[j].kind not in hashable for pair in self.interactions for j in pair
        ):
            problems.append("a cross is of two columns, and of no words")
        if any(j >= n or self.columns[j].kind == "number" for j, _ in self.dictionary):
            problems.append("a value is of no column of categories")
        if len(set(self.dictionary)) != len(self.dictionary):
            problems.append("a value is there twice")
        return problems

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return [column.name for column in self.columns]

    @cached_property
    def numbers(self) -> list[int]:
        """Places of the columns of numbers."""
        return [j for j, column in enumerate(self.columns) if column.kind == "number"]

    @property
    def n_own(self) -> int:
        """Features of numbers, and of missing ones."""
        return 2 * len(self.numbers)

    @property
    def n_features(self) -> int:
        """Features that there may be."""
        return self.n_own + (1 << self.hash_bits if self.hash_bits else len(self.dictionary))

    @cached_property
    def _quoted_names(self) -> list[str]:
        """Names of the columns, in quotes where they could be those of another's features."""
        names, starts = set(self.names), ('"', "hash ") if self.hash_bits else '"'
        return [
            json.dumps(name, ensure_ascii=False)
            if name.startswith(starts)
            or any(name[:at] in names for at, letter in enumerate(name) if letter == "=")
            else name
            for name in self.names
        ]

    def feature_name(self, j: int) -> str:
        """Return the name of feature j, counted from 0; ``hash 17`` where it is one of hashes.

        No two features have the same name: next to a column `a`, whose values are ``a=b``, a column
        called so is ``"a=b"``.
        """
        numbers = self.numbers
        if j < len(numbers):
            return self._quoted_names[numbers[j]]
        if j < self.n_own:
            return f"{self._quoted_names[numbers[j - len(numbers)]]}={MISSING}"
        if self.hash_bits:
            return f"hash {j - self.n_own}"
        if j - self.n_own >= len(self.dictionary):
            return f"feature {j}"
        column, value = self.dictionary[j - self.n_own]
        return f"{self._quoted_names[column]}={value}"

    def to_json(self) -> dict[str, Any]:
        """Return what stores and models keep."""
        return {
            "version": VERSION,
            "columns": [
                {"name": c.name, "kind": c.kind, "mean": c.mean, "scale": c.scale}
                for c in self.columns
            ],
            "target": {"name": self.target.name, "kind": self.target.kind},
            "weight": self.weight,
            "hash": HASH if self.hash_bits else None,
            "hash_bits": self.hash_bits,
            "dictionary": [list(pair) for pair in self.dictionary],
            "interactions": [list(pair) for pair in self.interactions],
        }

    def to_bytes(self) -> bytes:
        """Return that as text."""
        return json.dumps(self.to_json(), separators=(",", ":"), allow_nan=False).encode() + b"\n"

    @classmethod
    def of_json(cls, content: Any) -> Self:
        """Return the recipe that was kept.

        ValueError is raised if it is none.
        """
        _RECIPE(content, "recipe")
        if content["version"] != VERSION:
            raise ValueError(f"the recipe is of version {content['version']}, not {VERSION}")
        if (content["hash"] is None) != (content["hash_bits"] == 0):
            raise ValueError("the recipe has a hash without bits, or bits without a hash")
        target = content["target"]
        try:
            return cls(
                columns=tuple(
                    Column(c["name"], c["kind"], _float(c["mean"]), _float(c["scale"]))
                    for c in content["columns"]
                ),
                target=Target(target["name"], target["kind"]),
                weight=content["weight"],
                hash_bits=content["hash_bits"],
                dictionary=tuple((j, value) for j, value in content["dictionary"]),
                interactions=tuple((i, j) for i, j in content["interactions"]),
            )
        except UsageError as error:
            raise ValueError(error.what) from error

    def summary(self) -> str:
        """Describe it in a few lines for people."""
        by_kind: dict[str, list[str]] = {}
        for column in self.columns:
            by_kind.setdefault(column.kind, []).append(column.name)
        lines = [f"target: {self.target.name}"]
        if self.weight is not None:
            lines.append(f"weight: {self.weight}")
        for kind, names in by_kind.items():
            more = f" and {len(names) - 20} more" if len(names) > 20 else ""
            lines.append(
                f"{counted(len(names), 'column')} of kind {kind}: {', '.join(names[:20])}{more}"
            )
        if any(column.scale is not None for column in self.columns):
            lines.append("numbers are standardised")
        crosses = [f"{self.names[i]}*{self.names[j]}" for i, j in self.interactions]
        if crosses:
            lines.append(f"crosses: {', '.join(crosses)}")
        if self.hash_bits:
            lines.append(f"values hashed to {counted(self.hash_bits, 'bit')} ({HASH})")
        elif self.dictionary:
            lines.append(f"dictionary of {counted(len(self.dictionary), 'value')}")
        return "\n".join(map(shown, lines))  # a name may have ends of lines


def recipe_of_model(metadata: Mapping[str, Any], n_features: int, name: str) -> Recipe:
    """Return the recipe of a model that was trained on tables.

    MismatchError is raised if it was trained on something else, or its recipe is not that of its
    weights.

    Parameters
    ----------
    metadata : mapping of str           of the model
    n_features : int          that it has
    name : str                of the model, for messages
    """
    content = metadata.get("recipe")
    if content is None:
        raise MismatchError(
            f"{name}: the model was not trained on tables, and has no recipe for one",
            "predict LIBSVM text with it",
        )
    try:
        recipe = Recipe.of_json(content)
    except ValueError as error:
        raise MismatchError(f"{name}: {error}", "train again") from error
    if n_features > recipe.n_features or metadata.get("hash_bits"):
        raise MismatchError(f"{name}: the recipe is not that of the weights", "train again")
    return recipe


def names_of_features(
    metadata: Mapping[str, Any], n_features: int, name: str
) -> Callable[[int], str] | None:
    """Return what names the features of a model of tables; None of other models.

    MismatchError is raised if its recipe is not that of its weights.

    Parameters
    ----------
    metadata, n_features, name :        as for `recipe_of_model`
    """
    if "recipe" not in metadata:
        return None
    return recipe_of_model(metadata, n_features, name).feature_name


_ONE_OF = ("text", "category", "boolean", "date", "timestamp")
"""Kinds of which a row has one value."""


def _float(value: Any) -> float | None:
    return None if value is None else float(value)
