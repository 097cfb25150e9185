"""Rows of a table to features, as a recipe says."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.batches.tables import MOST_EXACT, Table
from blocklinear.errors import InputError
from blocklinear.numerals import format_number
from blocklinear.tables import hashing
from blocklinear.tables.arrow import arrow
from blocklinear.tables.recipe import MISSING, MOST_VALUES, Recipe
from blocklinear.tables.sources import Part

LONGEST_VALUE = 1 << 16
"""Bytes of a value."""
MOST_NUMBER = 1e154
"""Numbers are below, as in text: squares would overflow."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Encoder:
    """Makes rows of features of parts of tables, in order.

    Parameters
    ----------
    recipe : Recipe
    growing : bool
        Whether values that are new get a feature; else they are counted, and have none.

    Attributes
    ----------
    unseen : dict of str to int         values that the dictionary has not, by column
    """

    def __init__(self, recipe: Recipe, growing: bool) -> None:
        self._recipe, self._growing = recipe, growing
        self._entries = list(recipe.dictionary)
        self._ids: list[dict[str, int]] = [{} for _ in recipe.columns]
        for k, (j, value) in enumerate(self._entries):
            self._ids[j][value] = recipe.n_own + k
        self._seeds = [hashing.seed_of(name) for name in recipe.names]
        self._crosses = [
            (i, j, hashing.seed_of(f"{recipe.names[i]}*{recipe.names[j]}"))
            for i, j in recipe.interactions
        ]
        self._dictionaries: dict[int, tuple[Any, hashing.Hashes]] = {}
        self.unseen: dict[str, int] = {}

    @property
    def recipe(self) -> Recipe:
        """The recipe, with the values found so far."""
        return replace(self._recipe, dictionary=tuple(self._entries))

    @property
    def n_features(self) -> int:
        """Features that there may be by now."""
        bits = self._recipe.hash_bits
        return self._recipe.n_own + (1 << bits if bits else len(self._entries))

    def table(self, part: Part) -> "EncodedTable":
        """Return the features of a part, worked out when they are asked for.

        Raises
        ------
        InputError
            If a value cannot be a feature: the message says where.
        """
        recipe = self._recipe
        cells: list[_Cell] = []
        for j, column in enumerate(recipe.columns):
            array = part.columns[column.name]
            if column.kind == "number":
                cells.append(self._number(part, j, array))
            elif column.kind == "words":
                array = _without_missing_lists(array)
                indptr = np.concatenate(([0], np.cumsum(np.asarray(array.value_lengths()))))
                cells.append(self._values(part, j, array.flatten(), indptr.astype(np.int64)))
            else:
                cells.append(self._values(part, j, array, None))
        if not recipe.hash_bits:
            self._look_up(part, [cell for cell in cells if isinstance(cell, _Coded)])
        return EncodedTable(part, recipe, self.n_features, cells, self._crosses)

    def _number(self, part: Part, j: int, array: Any) -> "_Number":
        recipe, column = self._recipe, self._recipe.columns[j]
        values, missing = numbers_of(part, column.name, array)
        if column.mean is not None and column.scale is not None:
            values = (values - column.mean) / column.scale
            values[missing] = 0.0
        k = recipe.numbers.index(j)
        return _Number(column.name, values, missing, k, k + len(recipe.numbers), self._seeds[j])

    def _values(self, part: Part, j: int, array: Any, indptr: Integers | None) -> "_Cell":
        """Return a column of categories, or of the words in lists."""
        name, seed = self._recipe.names[j], self._seeds[j]
        if self._recipe.hash_bits and not hasattr(array, "dictionary"):
            return _Hashed(name, j, indptr, _strings_of(part, name, array), seed)
        if not self._recipe.hash_bits:
            if not hasattr(array, "dictionary"):
                array = _strings_of(part, name, array).dictionary_encode()
            strings = _strings_of(part, name, array.dictionary, in_dictionary=True)
            names = [MISSING if value is None else value for value in strings.to_pylist()]
            return _Coded(name, j, indptr, [*names, MISSING], _codes_of(array))
        dictionary, hashes = self._dictionaries.get(j, (None, None))
        if dictionary is None or not dictionary.equals(array.dictionary):  # once a dictionary
            strings = _strings_of(part, name, array.dictionary, in_dictionary=True)
            hashes = np.append(hashes_of(strings, seed), hashing.hash_text(MISSING, seed))
            self._dictionaries[j] = array.dictionary, hashes
        assert hashes is not None
        return _HashedCodes(name, j, indptr, hashes, _codes_of(array))

    def _look_up(self, part: Part, cells: "Sequence[_Coded]") -> None:
        """Give every value its feature; new ones the next, row by row, then column by column."""
        new: list[tuple[int, int, int, int, str]] = []
        for cell in cells:
            ids, values = self._ids[cell.column], cell.values
            cell.ids = np.array([ids.get(value, -1) for value in values], np.int64)
            lacking = np.flatnonzero(cell.ids < 0)
            if not len(lacking):
                continue
            first = np.full(len(values), -1, np.int64)
            first[cell.codes[::-1]] = np.arange(len(cell.codes))[::-1]
            if not self._growing:
                n = int(np.count_nonzero(np.isin(cell.codes, lacking)))
                if n:
                    self.unseen[cell.name] = self.unseen.get(cell.name, 0) + n
                continue
            for code in lacking.tolist():
                place = int(first[code])
                if place >= 0:
                    row = cell.row_of(place)
                    new.append((row, cell.column, place, code, values[code]))
        by_column = {cell.column: cell for cell in cells}
        for row, j, _, code, value in sorted(new):
            known = self._ids[j]
            if value not in known:
                if len(self._entries) == MOST_VALUES:
                    raise InputError(
                        f"{part.at(row)}, column {self._recipe.names[j]}: there are more than "
                        f"{MOST_VALUES} different values",
                        "give --hash-bits, as 22, or leave out columns of many values",
                    )
                known[value] = self._recipe.n_own + len(self._entries)
                self._entries.append((j, value))
            by_column[j].ids[code] = known[value]

    def labels(self, part: Part) -> NDArray[Any]:
        """Return the labels, float64[n_rows], or text as Python has it.

        Raises
        ------
        InputError
            If one is missing.
        """
        target = self._recipe.target
        array = part.columns[target.name]
        refuse_missing(part, target.name, array, "the target")
        if target.kind != "text":
            return numbers_of(part, target.name, array)[0]
        strings = array.dictionary_decode() if hasattr(array, "dictionary") else array
        labels = np.empty(part.n_rows, object)
        labels[:] = strings.to_pylist()
        return labels

    def weights(self, part: Part) -> Floats | None:
        """Return the weights of rows, float64[n_rows], or None if they have none.

        Raises
        ------
        InputError
            If one is missing, or below 0.
        """
        name = self._recipe.weight
        if name is None:
            return None
        array = part.columns[name]
        refuse_missing(part, name, array, "the weight")
        weights, _ = numbers_of(part, name, array)
        bad = np.flatnonzero(weights < 0)
        if len(bad):
            raise InputError(
                f"{part.at(int(bad[0]))}, column {name}: the weight is "
                f"{format_number(weights[bad[0]])}",
                "weights are 0 or more",
            )
        return weights


class _Cell:
    """What a column is in each row: one feature, or as many as its list has words.

    Attributes
    ----------
    name : str
    indptr : int64[n_rows + 1] or None      of lists, where they are
    """

    name: str
    indptr: Integers | None = None

    def row_of(self, place: int) -> int:
        """Return the row of a value."""
        if self.indptr is None:
            return place
        return int(np.searchsorted(self.indptr, place, "right")) - 1

    def hashes(self, start: int, stop: int) -> hashing.Hashes:
        """Return the hashes of values start..stop-1."""
        raise NotImplementedError

    def numbers(self, start: int, stop: int) -> Floats | float:
        """Return the numbers that a cross with this column multiplies."""
        return 1.0

    def put(self, start: int, stop: int, make: "_Maker", indices: Any, values: Any) -> None:
        """Write the features of values start..stop-1, and how much they are."""
        indices[:] = make.features(self.hashes(start, stop))
        values[:] = 1.0


class _Number(_Cell):
    def __init__(
        self, name: str, values: Floats, missing: Integers, own: int, if_missing: int, seed: Any
    ) -> None:
        self.name, self._values, self._missing = name, values, missing
        self._own, self._if_missing, self._seed = own, if_missing, seed

    def hashes(self, start: int, stop: int) -> hashing.Hashes:
        return np.full(stop - start, self._seed, np.uint64)

    def numbers(self, start: int, stop: int) -> Floats | float:
        return self._values[start:stop]

    def put(self, start: int, stop: int, make: "_Maker", indices: Any, values: Any) -> None:
        indices[:] = self._own + make.base
        values[:] = self._values[start:stop]
        if len(self._missing):
            first, last = np.searchsorted(self._missing, (start, stop))
            here = self._missing[first:last] - start
            indices[here] = self._if_missing + make.base
            values[here] = 1.0


class _Hashed(_Cell):
    def __init__(
        self, name: str, column: int, indptr: Integers | None, strings: Any, seed: Any
    ) -> None:
        self.name, self.column, self.indptr = name, column, indptr
        self._strings, self._seed = strings, seed

    def hashes(self, start: int, stop: int) -> hashing.Hashes:
        return hashes_of(self._strings.slice(start, stop - start), self._seed)


class _HashedCodes(_Cell):
    def __init__(
        self, name: str, column: int, indptr: Integers | None, hashes: Any, codes: Integers
    ) -> None:
        self.name, self.column, self.indptr = name, column, indptr
        self._hashes, self._codes = hashes, codes

    def hashes(self, start: int, stop: int) -> hashing.Hashes:
        found: hashing.Hashes = self._hashes[self._codes[start:stop]]
        return found


class _Coded(_Cell):
    """Values of a dictionary; `ids` are the features of its values, -1 for none."""

    def __init__(
        self, name: str, column: int, indptr: Integers | None, values: list[str], codes: Integers
    ) -> None:
        self.name, self.column, self.indptr = name, column, indptr
        self.values, self.codes = values, codes
        self.ids: Integers = np.empty(0, np.int64)

    def put(self, start: int, stop: int, make: "_Maker", indices: Any, values: Any) -> None:
        ids = self.ids[self.codes[start:stop]]
        indices[:] = np.maximum(ids, 0) + make.base
        values[:] = ids >= 0


class _Maker:
    """Features of hashes, numbered from `base` on."""

    def __init__(self, recipe: Recipe, base: int) -> None:
        self.base = base
        self._first = np.uint64(recipe.n_own + base)
        self._mask = np.uint64((1 << recipe.hash_bits) - 1)

    def features(self, hashes: hashing.Hashes) -> NDArray[np.uint64]:
        return (hashes & self._mask) + self._first


class EncodedTable(Table):
    """A part of a table as rows of features; a feature may be there several times in a row."""

    def __init__(
        self,
        part: Part,
        recipe: Recipe,
        n_features: int,
        cells: Sequence[_Cell],
        crosses: Sequence[tuple[int, int, np.uint64]],
    ) -> None:
        self.kind, self.n_rows, self.n_columns = "table", part.n_rows, n_features
        last = part.first + part.n_rows - 1
        self.place = f"{part.place}, {part.unit}s {part.first} to {last}"
        self._recipe, self._cells, self._crosses = recipe, cells, crosses
        self._lists = [cell for cell in cells if cell.indptr is not None]
        self._single = [cell for cell in cells if cell.indptr is None]
        self._n_single = len(self._single) + len(crosses)

    def _ends(self) -> Integers:
        """Return where rows would begin if all were written one after the other."""
        ends = np.arange(self.n_rows + 1, dtype=np.int64) * self._n_single
        for cell in self._lists:
            assert cell.indptr is not None
            ends += cell.indptr
        return ends

    def stop_of(self, start: int, most_rows: int, most_entries: int) -> int:
        """Return where a piece ends that begins at `start`."""
        if not self._lists:
            n = min(most_rows, most_entries // max(self._n_single, 1))
        else:
            ends = self._ends()[start : start + most_rows + 1]
            n = int(np.searchsorted(ends, int(ends[0]) + most_entries, "right")) - 1
        return min(start + max(n, 1), self.n_rows)

    def n_entries(self, start: int, stop: int) -> int:
        """Return how many entries rows have, those of one feature each for itself."""
        n = (stop - start) * self._n_single
        for cell in self._lists:
            assert cell.indptr is not None
            n += int(cell.indptr[stop] - cell.indptr[start])
        return n

    def put(
        self,
        start: int,
        stop: int,
        base: int,
        indptr: NDArray[np.int64],
        indices: NDArray[np.uint32],
        values: NDArray[np.float64],
    ) -> None:
        """Write rows start..stop-1."""
        make, n = _Maker(self._recipe, base), stop - start
        if not self._lists:
            indptr[:] = np.arange(n + 1, dtype=np.int64) * self._n_single
            shape = n, self._n_single
            self._put_single(start, stop, make, indices.reshape(shape), values.reshape(shape))
            return
        ends = self._ends()
        indptr[:] = ends[start : stop + 1] - ends[start]
        single = np.empty((n, self._n_single), np.uint32), np.empty((n, self._n_single))
        self._put_single(start, stop, make, *single)
        at = indptr[:-1].copy()
        for k in range(self._n_single):
            indices[at + k], values[at + k] = single[0][:, k], single[1][:, k]
        at += self._n_single
        for cell in self._lists:
            assert cell.indptr is not None
            of = cell.indptr[start : stop + 1]
            lengths, first, last = np.diff(of), int(of[0]), int(of[-1])
            place = np.repeat(at - (of[:-1] - first), lengths) + np.arange(last - first)
            words = np.empty(last - first, np.uint32), np.empty(last - first)
            cell.put(first, last, make, *words)
            indices[place], values[place] = words
            at += lengths

    def _put_single(
        self, start: int, stop: int, make: _Maker, indices: NDArray[Any], values: NDArray[Any]
    ) -> None:
        """Write what each row has once: indices and values of shape (n_rows, n_single)."""
        cells, k = self._cells, 0
        for cell in self._single:
            cell.put(start, stop, make, indices[:, k], values[:, k])
            k += 1
        for i, j, seed in self._crosses:
            pair = cells[i].hashes(start, stop), cells[j].hashes(start, stop)
            indices[:, k] = make.features(hashing.cross(seed, *pair))
            values[:, k] = cells[i].numbers(start, stop)
            values[:, k] *= cells[j].numbers(start, stop)
            k += 1

    def column_of(self, row: int, place: int) -> int:
        """Return the column of an entry of a row."""
        return place

    def column(self, column: int) -> str:
        """Return which column it is, for people."""
        if column < len(self._single):
            return f"column {self._single[column].name}"
        return "a cross, or a word"


def numbers_of(part: Part, name: str, array: Any) -> tuple[Floats, Integers]:
    """Return numbers, 0 where one is missing, and the rows where that is.

    Raises
    ------
    InputError
        If one is NaN, infinite, too large, or an integer that no float64 is equal to.
    """
    pa = arrow()
    pc, kind, missing = pa.compute, array.type, np.empty(0, np.int64)
    if hasattr(array, "dictionary"):
        array = array.dictionary_decode()
    if array.null_count:
        missing = np.flatnonzero(np.asarray(array.is_null()))
        if array.null_count == len(array):
            return np.zeros(len(array)), missing
        array = pc.fill_null(array, pa.scalar(0).cast(array.type))
    if pa.types.is_integer(kind) and kind.bit_width == 64:
        integers = np.asarray(array)
        if len(integers) and (
            int(integers.max()) > MOST_EXACT or int(integers.min()) < -MOST_EXACT
        ):
            _refuse_inexact(part, name, integers)
    if pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
        array = array.cast(pa.float64())
    values = np.array(array, np.float64)
    if len(values) and not -MOST_NUMBER < float(values.min()) <= float(values.max()) < MOST_NUMBER:
        row = int(np.flatnonzero(~(np.abs(values) < MOST_NUMBER))[0])
        what = "too large: its square overflows" if np.isfinite(values[row]) else "not finite"
        raise InputError(
            f"{part.at(row)}, column {name}: the value {values[row]} is {what}",
            "write what is missing as null; values are below 1e154",
        )
    return values, missing


def _refuse_inexact(part: Part, name: str, integers: NDArray[Any]) -> None:
    """Refuse the first integer that no float64 is equal to, if there is one."""
    for row in np.flatnonzero((integers > MOST_EXACT) | (integers < -MOST_EXACT)).tolist():
        value = int(integers[row])
        if int(float(value)) != value:
            raise InputError(
                f"{part.at(row)}, column {name}: {value} is beyond 2**53, and has no float64 of "
                "its own",
                f"leave the column out with --drop {name} if it is an identifier, or make "
                f"categories of it with --categories {name}",
            )


def refuse_missing(part: Part, name: str, array: Any, what: str) -> None:
    """Refuse a column in which values are missing."""
    if array.null_count:
        row = int(np.flatnonzero(np.asarray(array.is_null()))[0])
        raise InputError(
            f"{part.at(row)}, column {name}: {what} is missing; it is in {array.null_count} of the "
            f"{part.n_rows} rows read with this one",
            "leave out rows without one",
        )


def hashes_of(strings: Any, seed: np.uint64) -> hashing.Hashes:
    """Return the hashes of Arrow strings, uint64[n]; missing ones are the text `MISSING`."""
    n, (_, offsets, data) = len(strings), strings.buffers()
    width = np.int64 if arrow().types.is_large_string(strings.type) else np.int32
    ends = np.frombuffer(offsets, width)[strings.offset : strings.offset + n + 1]
    text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    hashes = hashing.hash_bytes(text, ends, seed)
    if strings.null_count:
        hashes[np.asarray(strings.is_null())] = hashing.hash_text(MISSING, seed)
    return hashes


def _strings_of(part: Part, name: str, array: Any, in_dictionary: bool = False) -> Any:
    """Return values of categories as Arrow strings.

    Raises
    ------
    InputError
        If one is too long, or no text.
    """
    pa = arrow()
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        array = array.cast(pa.string())
    lengths = pa.compute.binary_length(array)
    longest = pa.compute.max(lengths).as_py() or 0
    if longest > LONGEST_VALUE:
        row = pa.compute.index(lengths, longest).as_py()
        place = part.place if in_dictionary else part.at(row)
        raise InputError(
            f"{place}, column {name}: a value of {longest} bytes, more than {LONGEST_VALUE}",
            f"leave the column out with --drop {name}, or write lists of words",
        )
    return array


def _codes_of(array: Any) -> Integers:
    """Return the codes of a dictionary array; of missing values the length of the dictionary."""
    codes = array.indices.cast(arrow().int64())
    return np.array(codes.fill_null(len(array.dictionary)), np.int64)


def _without_missing_lists(array: Any) -> Any:
    """Return lists, with a list of one missing word where one is missing."""
    if not array.null_count:
        return array
    pa = arrow()
    return pa.compute.coalesce(array, pa.scalar([None], array.type))
