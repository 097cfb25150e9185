"""What JSON that comes from a file must be made of, before anything is done with it.

A shape is a function that takes a value and its place, such as ``sources[0].size``, and raises
ValueError where the value is not of it. Types are exact: True is no integer, and 1.0 is none.
"""

import contextlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

Shape = Callable[[Any, str], None]
MOST = 1 << 62
"""Above all counts and sizes."""


def _refuse(place: str, rule: str) -> None:
    raise ValueError(f"{place or 'it'} is not {rule}")


def _of(kind: type, rule: str) -> Shape:
    def check(value: Any, place: str) -> None:
        if type(value) is not kind:
            _refuse(place, rule)

    return check


text, flag, nothing = _of(str, "text"), _of(bool, "true or false"), _of(type(None), "null")


def anything(value: Any, place: str) -> None:
    """Any value."""


def integer(least: int = 0, most: int = MOST) -> Shape:
    """Return the shape of an integer in a range."""

    def check(value: Any, place: str) -> None:
        if type(value) is not int or not least <= value <= most:
            _refuse(place, f"an integer from {least} to {most}")

    return check


count = integer()


def number(value: Any, place: str) -> None:
    """Any float, or an integer of a size that a float may have."""
    if type(value) is not float and (type(value) is not int or abs(value) > sys.float_info.max):
        _refuse(place, "a number")


def choice(*values: str) -> Shape:
    """Return the shape of one of some texts."""

    def check(value: Any, place: str) -> None:
        if type(value) is not str or value not in values:
            _refuse(place, f"one of {', '.join(values)}")

    return check


def maybe(shape: Shape) -> Shape:
    """Return the shape of null or something else."""

    def check(value: Any, place: str) -> None:
        if value is not None:
            shape(value, place)

    return check


def either(*several: Shape) -> Shape:
    """Return the shape of what has one of some shapes."""

    def check(value: Any, place: str) -> None:
        for shape in several:
            with contextlib.suppress(ValueError):
                shape(value, place)
                return
        _refuse(place, "of any shape that it may have")

    return check


def items(shape: Shape) -> Shape:
    """Return the shape of a list of any length."""

    def check(value: Any, place: str) -> None:
        if type(value) is not list:
            _refuse(place, "a list")
        for k, item in enumerate(value):
            shape(item, f"{place}[{k}]")

    return check


def row(*shapes: Shape) -> Shape:
    """Return the shape of a list with one item of each."""

    def check(value: Any, place: str) -> None:
        if type(value) is not list or len(value) != len(shapes):
            _refuse(place, f"a list of {len(shapes)}")
        for k, (item, shape) in enumerate(zip(value, shapes, strict=True)):
            shape(item, f"{place}[{k}]")

    return check


def fields(
    needed: Mapping[str, Shape], others: Mapping[str, Shape] | None = None, more: bool = False
) -> Shape:
    """Return the shape of an object.

    Parameters
    ----------
    needed : mapping of str to shape    fields that it has
    others : mapping of str to shape    fields that it may have
    more : bool               whether it may have fields that are not listed
    """
    known = {**needed, **(others or {})}

    def check(value: Any, place: str) -> None:
        if type(value) is not dict:
            _refuse(place, "an object")
        for name in needed:
            if name not in value:
                raise ValueError(f"{place or 'it'} has no {name}")
        for name, member in value.items():
            if name in known:
                known[name](member, f"{place}.{name}".lstrip("."))
            elif not more:
                raise ValueError(f"{place or 'it'} has fields that are not of this format")

    return check


def like(example: Any) -> Shape:
    """Return the shape of what an example is: a flag, a count, a number, or a row of these."""
    if isinstance(example, list | tuple):
        return row(*map(like, example))
    kinds = (bool, flag), (int, count), (float, number)
    return next((shape for kind, shape in kinds if isinstance(example, kind)), anything)


def mapping(shape: Shape) -> Shape:
    """Return the shape of an object whose fields are all of one shape, whatever their names."""

    def check(value: Any, place: str) -> None:
        if type(value) is not dict:
            _refuse(place, "an object")
        for member in value.values():
            shape(member, f"a field of {place or 'it'}")

    return check
