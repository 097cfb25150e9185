"""Columns of tables: of what kind they are, and whether they are those of a recipe."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from blocklinear.errors import InputError, UsageError, quoted_name
from blocklinear.events import Listener, Warned, ignore
from blocklinear.recipe import TARGET_KINDS, Column, Recipe, Target
from blocklinear.tables.arrow import MISSING_WORD, arrow

_MOST_SHOWN = 10
_NAMELESS_INDEX = "__"
"""pandas writes an index without a name as `__index_level_0__`, Dask as `__null_dask_index__`."""


@dataclass(frozen=True)
class TableOptions:
    """What is to be made of a table."""

    target: str  # column of labels
    weight: str | None = None  # column of weights
    # columns that features are made of; empty for all but an index of pandas that nothing names
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()  # columns that are left out
    # columns of integers, text or booleans that are categories
    categories: tuple[str, ...] = ()
    hash_bits: int = 0  # hash values to so many bits; 0 for a dictionary
    interactions: tuple[tuple[str, str], ...] = ()  # columns to cross
    standardize: bool = False  # subtract the mean of numbers, and divide by their deviation


def kind_of(kind: Any) -> str | None:
    """Return the kind of a column of an Arrow type; None if nothing is made of it."""
    t = arrow().types
    if t.is_dictionary(kind):
        kind = kind.value_type
        return "text" if t.is_integer(kind) else kind_of(kind)
    if t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind):
        return "number"
    if t.is_boolean(kind):
        return "boolean"
    if t.is_date(kind):
        return "date"
    if t.is_timestamp(kind):
        return "timestamp"
    if t.is_string(kind) or t.is_large_string(kind) or t.is_null(kind):
        return "text"
    if t.is_list(kind) or t.is_large_list(kind):
        words = kind.value_type
        return "words" if kind_of(words) == "text" and not t.is_null(words) else None
    return None


def infer(path: str, schema: Any, options: TableOptions, listener: Listener = ignore) -> Recipe:
    """Return the recipe for tables like the one of a schema, without values and moments.

    An index of pandas is left out, unless an option names it; `Warned` says so if it has a name. It
    also names columns that are text for want of a type, as all their values are missing.

    UsageError is raised if the options contradict each other, or name columns that are not there;
    InputError if nothing can be made of a column.
    """
    names = list(schema.names)
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        raise InputError(f"{path}: there are several columns {listed(twice)}", "rename them")
    named = {
        "--target": [options.target], "--weight": [options.weight] if options.weight else [],
        "--columns": options.columns, "--drop": options.drop, "--categories": options.categories,
        "--interactions": [name for pair in options.interactions for name in pair],
    }  # fmt: skip
    for option, given in named.items():
        lacking = [name for name in given if name not in names]
        if lacking:
            raise UsageError(
                f"{path}: the table has no column {listed(lacking)}, which {option} names",
                f"there are {listed(names)}",
            )
    if options.weight == options.target:
        raise UsageError(f"--weight names {quoted_name(options.target)}, which is the target")
    if options.interactions and not options.hash_bits:
        raise UsageError("crosses are hashed", "say to how many bits, as with --hash-bits 18")
    uses = {options.target: "the target", options.weight: "that of the weights"}
    index = set(_pandas_index(schema)).difference(*named.values())
    asked = dict.fromkeys(options.columns or [name for name in names if name not in index])
    dropped = set(options.drop)
    called = [name for name in names if name in index and not name.startswith(_NAMELESS_INDEX)]
    if called and not options.columns:
        listener(
            Warned(
                f"{path}: the index of pandas is left out, {listed(called)}: to take it, name it "
                "in --columns"
            )
        )
    left = [name for name in asked if name not in uses and name not in dropped]
    if "" in left:
        raise InputError(
            f"{path}: the name of column {names.index('') + 1} is empty",
            "name it, or list others with --columns; pandas leaves its index out with index=False",
        )
    for option in ("--columns", "--categories", "--interactions"):
        for name in named[option]:
            if name not in left:
                raise UsageError(
                    f"{option} names {quoted_name(name)}, which is {uses.get(name, 'left out')}"
                )
    columns, refused = [], []
    for name in left:
        kind = kind_of(schema.field(name).type)
        _refuse_missing_word(path, schema.field(name))
        if name in options.categories and kind is not None:
            if not _fits(schema.field(name).type, "category"):
                raise UsageError(
                    f"--categories names {quoted_name(name)}, which is of type "
                    f"{schema.field(name).type}: categories are integers, text or booleans",
                    "leave it out",
                )
            kind = "category"
        if kind is None:
            refused.append(f"{quoted_name(name)} of type {schema.field(name).type}")
        else:
            columns.append(Column(name, kind))
    texts = [column.name for column in columns if column.kind == "text"]
    untyped = [name for name in texts if arrow().types.is_null(schema.field(name).type)]
    if untyped:
        listener(
            Warned(
                f"{path}: no values in {listed(untyped)}, which from now on must be text: name a "
                "table in which there are some, too, or leave it out with --drop"
            )
        )
    if refused:
        more = f" and {len(refused) - _MOST_SHOWN} more" if len(refused) > _MOST_SHOWN else ""
        raise InputError(
            f"{path}: no features can be made of {', '.join(refused[:_MOST_SHOWN])}{more}",
            "leave them out with --drop, or write them as numbers, text or lists of text",
        )
    if options.weight is not None and not _fits(schema.field(options.weight).type, "number"):
        raise InputError(
            f"{path}: the weight {quoted_name(options.weight)} is of type "
            f"{schema.field(options.weight).type}",
            "weights are numbers",
        )
    places = {column.name: j for j, column in enumerate(columns)}
    crosses: dict[frozenset[str], tuple[str, str]] = {}
    for pair in options.interactions:
        crosses.setdefault(frozenset(pair), pair)
        for name in pair:
            if columns[places[name]].kind == "words" or pair[0] == pair[1]:
                raise UsageError(
                    f"--interactions {'*'.join(pair)}: a cross is of two columns, none of words"
                )
    return Recipe(
        columns=tuple(columns),
        target=Target(options.target, _target_kind(path, schema, options.target)),
        weight=options.weight,
        hash_bits=options.hash_bits,
        interactions=tuple((places[a], places[b]) for a, b in crosses.values()),
    )


def _pandas_index(schema: Any) -> list[str]:
    """Return the columns that pandas made of the index of a data frame."""
    try:
        found = list(schema.pandas_metadata["index_columns"])
    except (KeyError, TypeError, ValueError):  # there is no such metadata, or it is none of pandas
        return []
    return [name for name in found if name in schema.names]  # others are ranges of numbers


def _refuse_missing_word(path: str, column: Any, is_target: bool = False) -> None:
    """Refuse a column of CSV that is text for a word that stands for no value among numbers."""
    word = (column.metadata or {}).get(MISSING_WORD)
    if word is not None:
        name, text = quoted_name(column.name), quoted_name(word.decode())
        raise InputError(
            f"{path}: column {name} has numbers, and {text}",
            "leave fields without a value empty, as R does by write.csv(..., na = '')"
            + (
                ", and give --on-error skip, which leaves their rows out"
                if is_target
                else "; or take all as text by --categories, or leave the column out by --drop"
            ),
        )


def _target_kind(path: str, schema: Any, name: str) -> str:
    _refuse_missing_word(path, schema.field(name), is_target=True)
    kind = kind_of(schema.field(name).type)
    if kind not in TARGET_KINDS:
        raise InputError(
            f"{path}: the target {quoted_name(name)} is of type {schema.field(name).type}",
            "labels are numbers, booleans or text",
        )
    return kind


@dataclass
class Differences:
    """How tables differ from a recipe."""

    found: list[str] = field(default_factory=list)

    def look_at(self, path: str, schema: Any, recipe: Recipe, asked: Collection[str] = ()) -> None:
        """Compare a table; `asked` are columns that it needs in addition to those of features."""
        wanted = {column.name: column.kind for column in recipe.columns}
        if recipe.target.name in asked:
            wanted[recipe.target.name] = recipe.target.kind
        if recipe.weight is not None and recipe.weight in asked:
            wanted[recipe.weight] = "number"
        for name, kind in wanted.items():
            index = schema.get_all_field_indices(name)
            if not index:
                self.found.append(f"{path}: no column {quoted_name(name)}, of kind {kind}")
            elif len(index) > 1:
                self.found.append(f"{path}: {len(index)} columns {quoted_name(name)}")
            elif not _fits(schema.field(index[0]).type, kind):
                has = schema.field(index[0]).type
                self.found.append(
                    f"{path}: column {quoted_name(name)} is of type {has}, not {kind}"
                )

    def refuse(self, whose: str) -> None:
        """Raise the error, if there are differences."""
        if self.found:
            more = len(self.found) - 2 * _MOST_SHOWN
            lines = self.found[: 2 * _MOST_SHOWN] + ([f"and {more} more"] if more > 0 else [])
            raise InputError(
                f"the columns do not fit {whose}: {'; '.join(lines)}",
                "write the table as the one before",
            )


def _fits(kind: Any, wanted: str) -> bool:
    """Say whether a column of an Arrow type may be one of a recipe."""
    t, found = arrow().types, kind_of(kind)
    if t.is_null(kind):
        return True
    if wanted == "words" and (t.is_list(kind) or t.is_large_list(kind)):
        return _fits(kind.value_type, "text")  # of no type where all lists are empty
    if wanted == "category":
        # pandas makes float64 of integers where one is missing; others are refused row by row
        return found in ("text", "boolean") or t.is_integer(kind) or t.is_float64(kind)
    return found == wanted


def listed(names: Sequence[str]) -> str:
    """Return names of columns, the first of many."""
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(map(quoted_name, names[:_MOST_SHOWN])) + more
