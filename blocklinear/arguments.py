"""Arguments of the public functions: what is of the wrong type is refused in a sentence."""

import os
import types
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from typing import Any, get_args, get_origin, get_type_hints

from blocklinear.errors import WrongTypeError

Path = str | os.PathLike[str]

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


def path_list(inputs: Path | Iterable[Path]) -> list[Path]:
    """Return the paths of text as a list; one path is a list of one.

    Raises
    ------
    WrongTypeError
        If `inputs` is neither a path nor some paths.
    """
    if isinstance(inputs, str | os.PathLike):
        return [inputs]
    if not isinstance(inputs, Iterable) or hasattr(inputs, "shape"):  # an array is iterable too
        raise _no_path("inputs", inputs)
    paths = list(inputs)
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise _no_path("an item of inputs", path)
    return paths


def _no_path(place: str, value: object) -> WrongTypeError:
    return WrongTypeError(
        f"{place} is {described(value)}, but must be the path of LIBSVM text",
        "give a path or a list of paths; scikit-learn's dump_svmlight_file writes arrays",
    )


def check_store(store: object, accepted: type | tuple[type, ...]) -> None:
    """Refuse what is not a store, with what to give instead.

    Raises
    ------
    WrongTypeError
    """
    if not isinstance(store, accepted):
        raise WrongTypeError(
            f"store is {described(store)}, but must be a BlockStore or the path of one",
            'make one with blocklinear.split("rows.svm", "store"), and give what it returns',
        )


def check_options(options: object, kind: type) -> None:
    """Refuse options that are not of `kind`.

    Raises
    ------
    WrongTypeError
    """
    if not isinstance(options, kind):
        raise WrongTypeError(
            f"options is {described(options)}, but must be {kind.__name__}",
            f"write {kind.__name__}(NAME=VALUE, ...)",
        )


def check_types(options: Any) -> None:
    """Compare the fields of a dataclass of options with their annotations.

    Raises
    ------
    WrongTypeError
        If a field has a value of a type that its annotation does not name.
    """
    for name, hint in _hints(type(options)).items():
        value = getattr(options, name)
        if not _fits(value, hint):
            raise WrongTypeError(
                f"{name} is {_shown(value)} of type {type(value).__name__}, "
                f"but must be {_rule(hint)}"
            )


def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _choices(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the one that `hint` is."""
    return get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _fits(value: object, hint: Any) -> bool:
    for kind in _choices(hint):
        if get_origin(kind) is tuple:
            if isinstance(value, tuple | list):
                return True
            continue
        accepted = _RULES[kind][0] if kind in _RULES else kind
        counted = isinstance(value, bool) and kind is not bool  # True is an int for Python
        if isinstance(value, accepted) and not counted:
            return True
    return False


def _rule(hint: Any) -> str:
    rules = []
    for kind in _choices(hint):
        if get_origin(kind) is tuple:
            rules.append("a tuple")
        elif kind in _RULES:
            rules.append(_RULES[kind][1])
        else:
            rules.append(f"{kind.__name__}" + ("(...)" if is_dataclass(kind) else ""))
    return " or ".join(rules)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
