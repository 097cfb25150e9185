"""Labels as given, text or integers of any size, to the numbers that rows have in blocks.

A number is its own label. Text is numbered from 0 in the order in which it appears. An integer
beyond 2**53 may have no float64 of its own, so it gets one of the last below, of those of `OWN`.
"""

import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.classes import Class
from blocklinear.errors import InputError, quoted_name
from blocklinear.numerals import TOO_LARGE, counted, format_number

MOST_NAMED = 10_000
"""As many as a store tabulates."""
OWN = (1 << 53) - (1 << 14)
"""Integers up to this are their own labels; those above, below 2**53, stand for larger ones."""
LONGEST = 1000
"""Characters of a label, or digits."""


class LabelCoder:
    """Gives labels the numbers that they have in blocks.

    Parameters
    ----------
    classes : mapping of float to str or int      labels that have a number by now which is not
                              their own
    labels : iterable of float          numbers of all labels there are by now

    Attributes
    ----------
    classes : dict of float to str or int
    """

    def __init__(self, classes: Mapping[float, Class], labels: Iterable[float] = ()) -> None:
        self._codes: dict[Class, float] = {name: code for code, name in classes.items()}
        self._is_text = any(isinstance(name, str) for name in classes.values())
        uncoded = set(labels) - classes.keys()
        self._has_numbers = bool(uncoded)
        self._has_large = any(abs(label) > OWN for label in uncoded)

    @property
    def classes(self) -> dict[float, Class]:
        """Labels whose number is not their own, by it."""
        return {code: name for name, code in self._codes.items()}

    def codes(self, y: Any, n_rows: int) -> NDArray[np.float64]:
        """Return the numbers of labels, float64[n_rows].

        InputError is raised if there are more or fewer, or one is missing, or not a label.

        Parameters
        ----------
        y : array_like, shape (n_rows,)
        """
        given = _array_of(y)
        if given.shape != (n_rows,):
            raise InputError(
                f"X has {counted(n_rows, 'row')}, and y the shape {given.shape}",
                "give one label a row",
            )
        labels = _of_objects(given.tolist()) if given.dtype.kind in "OU" else given
        if isinstance(labels, list):
            return self._of_text(labels)
        if self._is_text and n_rows:
            raise InputError("row 0: the label is a number, and those before were text", _ONE_KIND)
        self._has_numbers |= n_rows > 0
        if labels.dtype == object or _any_large(labels):
            return self._of_integers(labels.tolist())
        return self._of_floats(labels)

    def _of_floats(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        codes = labels.astype(np.float64) + 0.0  # -0.0 becomes 0.0
        bad = np.flatnonzero(~(np.abs(codes) < TOO_LARGE))
        if len(bad):
            row, value = int(bad[0]), float(codes[bad[0]])
            what = "too large" if np.isfinite(value) else "not finite"
            raise InputError(
                f"row {row}: label {format_number(value)} is {what}",
                "labels are text, or numbers below 1e154; leave out rows that have none",
            )
        large = labels.dtype.kind == "f" and bool((np.abs(codes) > OWN).any())
        if large and self._codes:
            raise _mixed_large(int(np.flatnonzero(np.abs(codes) > OWN)[0]))
        self._has_large |= large
        return codes

    def _of_integers(self, values: list[int]) -> NDArray[np.float64]:
        codes = np.empty(len(values))
        for row, value in enumerate(values):
            if abs(value) <= OWN:
                codes[row] = value
                continue
            code = self._codes.get(value)
            if code is None:
                if self._has_large:
                    raise _mixed_large(row)
                if value.bit_length() > 3 * LONGEST:
                    raise InputError(f"row {row}: the label has over {LONGEST} digits", _SHORTER)
                code = max(self._codes.values(), default=float(OWN)) + 1.0
                self._name(value, code, row)
            codes[row] = code
        return codes

    def _of_text(self, labels: list[str]) -> NDArray[np.float64]:
        if self._has_numbers and labels:
            raise InputError("row 0: the label is text, and those before were numbers", _ONE_KIND)
        known = self._codes
        try:
            return np.fromiter(map(known.__getitem__, labels), np.float64, len(labels))
        except KeyError:
            pass
        for row, label in enumerate(labels):
            if label in known:
                continue
            if len(label) > LONGEST or not label.isprintable():
                what = "is not printable" if len(label) <= LONGEST else f"is over {LONGEST} long"
                raise InputError(f"row {row}: label {quoted_name(label)} {what}", _SHORTER)
            self._name(label, max(known.values(), default=-1.0) + 1.0, row)
        self._is_text = bool(known)
        return np.fromiter(map(known.__getitem__, labels), np.float64, len(labels))

    def _name(self, label: Class, code: float, row: int) -> None:
        if len(self._codes) == MOST_NAMED:
            what = "text" if isinstance(label, str) else "integers beyond 2**53"
            raise InputError(
                f"row {row}: there are more than {MOST_NAMED} labels, of {what}",
                "for regression give y as numbers of float64",
            )
        self._codes[label] = code


_ONE_KIND = "give all labels of a store as text, or all as numbers"
_SHORTER = "shorten the labels, or number the classes"


def _mixed_large(row: int) -> InputError:
    return InputError(
        f"row {row}: labels beyond 2**53 are integers here and floats there", "make all integers"
    )


def _any_large(labels: NDArray[Any]) -> bool:
    """Say whether there are integers that are not their own labels."""
    if labels.dtype.kind not in "iu" or not len(labels):
        return False
    return int(labels.max()) > OWN or int(labels.min()) < -OWN


def _array_of(y: Any) -> NDArray[Any]:
    """Return labels as an array; of objects, each is looked at later."""
    if isinstance(y, (list, tuple)):
        labels = np.empty(len(y), object)
        labels[:] = y
    else:
        labels = np.asarray(y)
    if labels.dtype.kind not in "biufUOT" or np.ma.is_masked(y):
        kind = "masked" if np.ma.is_masked(y) else f"of type {labels.dtype}"
        raise InputError(f"labels are {kind}", "give numbers or text")
    return labels.astype(object) if labels.dtype.kind == "T" else labels


def _of_objects(labels: list[Any]) -> NDArray[Any] | list[str]:
    """Return Python objects as a list of text, or as an array of floats or of Python integers."""
    if {type(label) for label in labels} == {str}:
        return labels
    text = any(isinstance(label, str) for label in labels)
    for row, label in enumerate(labels):
        nan = isinstance(label, float) and label != label  # which data frames have among text
        if label is None or type(label).__name__ == "NAType" or (text and nan):
            raise InputError(f"row {row}: the label is missing", "leave out rows that have none")
        if isinstance(label, str) != isinstance(labels[0], str):
            raise InputError(f"row {row}: text and numbers are mixed in the labels", _ONE_KIND)
        if not isinstance(label, str) and not _is_number(label):
            raise InputError(
                f"row {row}: the label is a {type(label).__name__}", "give numbers or text"
            )
    if labels and isinstance(labels[0], str):
        return list(map(str, labels))
    if all(isinstance(label, numbers.Integral) for label in labels):
        integers = [int(label) for label in labels]
        if all(abs(label) <= OWN for label in integers):
            return np.array(integers, np.float64)
        found = np.empty(len(integers), object)
        found[:] = integers
        return found
    return np.array([_clipped(label) for label in labels])


def _is_number(label: Any) -> bool:
    try:
        float(label)
    except OverflowError:
        return True
    except (TypeError, ValueError):
        return False
    return not isinstance(label, bytes)


def _clipped(label: Any) -> float:
    try:
        return float(label)
    except OverflowError:
        return np.inf
