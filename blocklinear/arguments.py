"""Arguments of the public functions: what is of the wrong type is refused in a sentence."""

import contextlib
import copy
import os
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from typing import Any, get_args, get_origin, get_type_hints

from blocklinear.errors import InputError, UsageError, WrongTypeError

Path = str | os.PathLike[str]

_LONGEST_SHOWN = 100  # characters
_RULES: dict[Any, tuple[type | tuple[type, ...], str]] = {
    bool: (bool, "True or False"),
    int: (Integral, "an integer"),
    float: (Real, "a number"),
    str: ((str, os.PathLike), "a str"),
    types.NoneType: (types.NoneType, "None"),
}


def described(value: object) -> str:
    """Return the type of `value` for a message, with the shape of an array."""
    kind, shape = type(value).__name__, getattr(value, "shape", None)
    return f"{kind} of shape {shape}" if isinstance(shape, tuple) else kind


def shown_value(value: Any) -> str:
    """Return `value` for a message, truncated if it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python does not write integers of more than 4300 digits
        if isinstance(value, int):
            return f"an integer of {value.bit_length()} bits"
        return f"a {type(value).__name__} with an integer of too many digits"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:40]}..."


def check_count(name: str, value: object) -> int:
    """Return how many, NumPy's integers as Python's.

    UsageError is raised if `value` is not an integer of at least 1.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{name} is {shown_value(value)}, but must be an integer, at least 1")
    return int(value)


def path_list(inputs: Path | Iterable[Path]) -> list[Path]:
    """Return the paths of text as a list; one path is a list of one.

    WrongTypeError is raised if `inputs` is neither a path nor some paths; UsageError if there is
    none.
    """
    if isinstance(inputs, str | os.PathLike):
        return [inputs]
    # arrays, open files and bytes are iterable too
    if not isinstance(inputs, Iterable) or any(
        hasattr(inputs, name) for name in ("shape", "read", "decode")
    ):
        raise _no_path("inputs", inputs)
    paths = list(inputs)
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise _no_path("an item of inputs", path)
    if not paths:
        raise UsageError("there are no inputs", "name a file at least")
    return paths


def _no_path(place: str, value: object) -> WrongTypeError:
    return WrongTypeError(
        f"{place} is {described(value)}, but must be the path of LIBSVM text",
        "give a path or a list of paths; StoreWriter takes arrays and data frames",
    )


def check_sparse(X: Any) -> None:
    """Refuse a SciPy matrix with places that it does not have: SciPy would read or write there.

    Raises InputError.
    """
    problem = ""
    if hasattr(X, "check_format"):
        try:
            copy.copy(X).check_format()  # which may cut its arrays to their length
        except ValueError as error:
            problem = str(error)
    elif X.format == "coo":
        coords = X.coords if hasattr(X, "coords") else (X.row, X.col)
        for places, n in zip(coords, X.shape, strict=True):
            if len(places) and not 0 <= places.min() <= places.max() < n:
                problem = f"there are places from {places.min()} to {places.max()} of {n}"
    if problem:
        raise InputError(
            f"{type(X).__name__}: {problem}", "make the matrix again: SciPy refuses such ones, too"
        )


def batches_of(batches: object, least: int = 3) -> Iterator[Any]:
    """Yield batches of rows, each a tuple or list of `least` to 3: X, y, sample_weight.

    WrongTypeError is raised if one is something else.
    """
    short, rest = ("2 or ", " or (X, y)") if least < 3 else ("", ", with None for no weights")
    fix = f"give (X, y, sample_weight){rest}"
    if not isinstance(batches, Iterable):
        raise WrongTypeError(f"batches is {described(batches)}, but must be an iterable", fix)
    for batch in batches:
        is_tuple = isinstance(batch, tuple | list)
        if not (is_tuple and least <= len(batch) <= 3):
            found = f"{described(batch)} of length {len(batch)}" if is_tuple else described(batch)
            raise WrongTypeError(
                f"an item of batches is a {found}, but must be a tuple of {short}3", fix
            )
        yield batch


def check_store(store: object, accepted: type | tuple[type, ...]) -> None:
    """Refuse what is not a store, with what to give instead.

    Raises WrongTypeError.
    """
    if not isinstance(store, accepted):
        raise WrongTypeError(
            f"store is {described(store)}, but must be a BlockStore or the path of one",
            'make one with blocklinear.split("rows.svm", "store"), and give what it returns',
        )


def check_name(store: str | os.PathLike[str]) -> None:
    """Refuse an empty name of a store, which would be the current folder.

    Raises UsageError.
    """
    if not os.fspath(store):
        raise UsageError("the name of the store is empty", "name a folder; this one is '.'")


def check_options(options: object, kind: type) -> None:
    """Refuse options that are not of `kind`.

    Raises WrongTypeError.
    """
    if not isinstance(options, kind):
        raise WrongTypeError(
            f"options is {described(options)}, but must be {kind.__name__}",
            f"write {kind.__name__}(NAME=VALUE, ...)",
        )


class Default(int):
    """A number of this machine, in options that were given none."""


def check_types(options: Any) -> None:
    """Make the fields of a dataclass of options what their annotations say.

    Numbers of any kind, as NumPy's, become Python's, which JSON takes, and integers floats where
    these are asked for: kernels are compiled for these. Lists and arrays become tuples.

    WrongTypeError is raised if a field has a value of a type that its annotation does not name.
    """
    kind: type = type(options)
    for name, hint in _hints(kind).items():
        value = getattr(options, name)
        if type(value) in (*_choices(hint), Default):
            continue
        try:
            taken = _taken(value, hint)
        except TypeError:
            raise WrongTypeError(
                f"{name} is {shown_value(value)} of type {type(value).__name__}, "
                f"but must be {_rule(hint)}"
            ) from None
        object.__setattr__(options, name, taken)


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


@cache
def _choices(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the one that `hint` is."""
    return get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _taken(value: Any, hint: Any) -> Any:
    """Return a value as one of the types of a hint; TypeError if it is of none."""
    for kind in _choices(hint):
        if get_origin(kind) is tuple:
            items = value if isinstance(value, tuple | list) else _listed(value)
            if items is not None:
                return _items(items, get_args(kind))
            continue
        accepted = _RULES[kind][0] if kind in _RULES else kind
        counted = isinstance(value, bool) and kind is not bool  # True is an int for Python
        if isinstance(value, accepted) and not counted:
            return _number(value, kind) if kind in (int, float) else value
    raise TypeError


def _number(value: Any, kind: type) -> int | float:
    """Return a number as Python's: a float where that is asked for, and is the same number."""
    if not isinstance(value, Integral):
        return float(value)
    whole = int(value)
    with contextlib.suppress(OverflowError):
        if kind is float and float(whole) == whole:
            return float(whole)
    return whole


def _listed(value: Any) -> list[Any] | None:
    """Return the items of an array of one dimension; None of anything else."""
    return value.tolist() if len(getattr(value, "shape", ())) == 1 else None


def _items(values: Sequence[Any], kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the items of a tuple as their types say, of which the last may be an ellipsis."""
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(values)
    if len(values) != len(kinds):
        raise TypeError
    return tuple(map(_taken, values, kinds))


def _rule(hint: Any) -> str:
    rules = []
    for kind in _choices(hint):
        if get_origin(kind) is tuple:
            items = ["..." if item is Ellipsis else _rule(item) for item in get_args(kind)]
            rules.append(f"a tuple ({', '.join(items)})")
        elif kind in _RULES:
            rules.append(_RULES[kind][1])
        else:
            rules.append(f"{kind.__name__}" + ("(...)" if is_dataclass(kind) else ""))
    return " or ".join(rules)
