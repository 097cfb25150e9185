"""Rows of a table to features, as a recipe says."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.batches.tables import Table
from blocklinear.errors import InputError
from blocklinear.numerals import format_number
from blocklinear.recipe import MISSING, MOST_VALUES, Recipe
from blocklinear.tables import hashing
from blocklinear.tables.columns import (
    Cross,
    Entries,
    Hashable,
    Hashed,
    HashedCodes,
    Listed,
    Numbers,
    row_of,
)
from blocklinear.tables.values import (
    Floats,
    Integers,
    Part,
    codes_of,
    lengths_of,
    numbers_of,
    refuse_missing,
    strings_of,
    without_missing_lists,
)


@dataclass(frozen=True)
class _Values:
    """What is known of the values of a dictionary array; the last place is that of missing ones.

    Attributes
    ----------
    dictionary : pyarrow Array
    texts : list of str       empty where values are hashed
    features : int64[n]       of the recipe's dictionary, -1 for none; changed as values get some
    hashes : uint64[n]        empty where the recipe has a dictionary
    """

    dictionary: Any
    texts: list[str]
    features: Integers
    hashes: hashing.Hashes


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
        self._known: dict[int, _Values] = {}
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
        columns: list[Entries] = []
        listed: dict[int, Listed] = {}
        for j, column in enumerate(self._recipe.columns):
            array, indptr = part.columns[column.name], None
            if column.kind == "number":
                columns.append(self._numbers(part, j, array))
                continue
            if column.kind == "words":
                array = without_missing_lists(array)
                indptr = np.concatenate(([0], np.cumsum(lengths_of(array), dtype=np.int64)))
                array = array.flatten()
            if self._recipe.hash_bits:
                columns.append(self._hashed(part, j, array, indptr))
            else:
                listed[j] = self._listed(part, j, array, indptr)
                columns.append(listed[j])
        self._number_new_values(part, listed)
        hashable = {j: found for j, found in enumerate(columns) if isinstance(found, Hashable)}
        bits, first = self._recipe.hash_bits, self._recipe.n_own
        crosses = [
            Cross(hashable[i], hashable[j], seed, bits, first) for i, j, seed in self._crosses
        ]
        return EncodedTable(part, self.n_features, self._recipe.names, columns, crosses)

    def _numbers(self, part: Part, j: int, array: Any) -> Numbers:
        recipe, column = self._recipe, self._recipe.columns[j]
        values, missing = numbers_of(part, column.name, array)
        if column.mean is not None and column.scale is not None:
            values = (values - column.mean) / column.scale
            values[missing] = 0.0
        k = recipe.numbers.index(j)
        return Numbers(values, missing, k, k + len(recipe.numbers), self._seeds[j])

    def _hashed(self, part: Part, j: int, array: Any, indptr: Integers | None) -> Hashable:
        seed, bits, first = self._seeds[j], self._recipe.hash_bits, self._recipe.n_own
        if hasattr(array, "dictionary"):
            values = self._values_of(part, j, array, indptr)
            codes = codes_of(part, self._recipe.names[j], array)
            return HashedCodes(values.hashes, codes, indptr, bits, first)
        strings = strings_of(part, self._recipe.names[j], array, partial(row_of, indptr))
        return Hashed(strings, indptr, seed, MISSING, bits, first)

    def _listed(self, part: Part, j: int, array: Any, indptr: Integers | None) -> Listed:
        if not hasattr(array, "dictionary"):
            strings = strings_of(part, self._recipe.names[j], array, partial(row_of, indptr))
            array = strings.dictionary_encode()
        codes = codes_of(part, self._recipe.names[j], array)
        return Listed(self._values_of(part, j, array, indptr).features, codes, indptr)

    def _values_of(self, part: Part, j: int, array: Any, indptr: Integers | None) -> _Values:
        """Look up the values of a dictionary array, once for all parts that share it."""
        known = self._known.get(j)
        if known is not None and known.dictionary.equals(array.dictionary):
            return known

        def row_of_value(code: int) -> int | None:
            places = np.flatnonzero(codes_of(part, self._recipe.names[j], array) == code)
            return row_of(indptr, int(places[0])) if len(places) else None

        strings = strings_of(part, self._recipe.names[j], array.dictionary, row_of_value)
        texts: list[str] = []
        if self._recipe.hash_bits:
            hashes = hashing.hash_strings(strings, self._seeds[j], MISSING)
            hashes = np.append(hashes, hashing.hash_text(MISSING, self._seeds[j]))
            features = np.empty(0, np.int64)
        else:
            texts = [MISSING if text is None else text for text in strings.to_pylist()] + [MISSING]
            ids, hashes = self._ids[j], np.empty(0, np.uint64)
            features = np.array([ids.get(text, -1) for text in texts], np.int64)
        self._known[j] = _Values(array.dictionary, texts, features, hashes)
        return self._known[j]

    def _number_new_values(self, part: Part, listed: dict[int, Listed]) -> None:
        """Give new values their features, row by row, then column by column; or count them."""
        new: list[tuple[int, int, int, int, str]] = []
        for j, column in listed.items():
            codes, (texts, features) = column.codes, (self._known[j].texts, self._known[j].features)
            places = np.flatnonzero(features[codes] < 0)
            if not len(places):
                continue
            if not self._growing:
                name = self._recipe.names[j]
                self.unseen[name] = self.unseen.get(name, 0) + len(places)
                continue
            found, firsts = np.unique(codes[places], return_index=True)
            for code, place in zip(found.tolist(), places[firsts].tolist(), strict=True):
                new.append((row_of(column.indptr, place), j, place, code, texts[code]))
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
            self._known[j].features[code] = known[value]

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


class EncodedTable(Table):
    """A part of a table as rows of features; a feature may be there several times in a row.

    Parameters
    ----------
    part : Part
    n_features : int
    names : sequence of str
        Of the columns.
    columns : sequence of Entries
    crosses : sequence of Entries
    """

    def __init__(
        self,
        part: Part,
        n_features: int,
        names: Sequence[str],
        columns: Sequence[Entries],
        crosses: Sequence[Entries],
    ) -> None:
        self.kind, self.n_rows, self.n_columns = "table", part.n_rows, n_features
        self.any_width = True  # a dictionary grows
        last = part.first + part.n_rows - 1
        self.place = f"{part.place}, {part.unit}s {part.first} to {last}"
        one_a_row = [j for j, column in enumerate(columns) if column.indptr is None]
        self._names = [names[j] for j in one_a_row]
        self._single = [*(columns[j] for j in one_a_row), *crosses]
        self._lists = [(column, column.indptr) for column in columns if column.indptr is not None]
        self._n_single = len(self._single)

    def _ends(self) -> Integers:
        """Return where rows would begin if all were written one after the other."""
        ends = np.arange(self.n_rows + 1, dtype=np.int64) * self._n_single
        for _, indptr in self._lists:
            ends += indptr
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
        return n + sum(int(indptr[stop] - indptr[start]) for _, indptr in self._lists)

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
        shape = n, n_single = stop - start, self._n_single
        if not self._lists:
            indptr[:] = np.arange(n + 1, dtype=np.int64) * n_single
            self._put_single(start, stop, base, indices.reshape(shape), values.reshape(shape))
            return
        ends = self._ends()
        indptr[:] = ends[start : stop + 1] - ends[start]
        single = np.empty(shape, np.uint32), np.empty(shape)
        self._put_single(start, stop, base, *single)
        at = indptr[:-1].copy()
        for k in range(n_single):
            indices[at + k], values[at + k] = single[0][:, k], single[1][:, k]
        at += n_single
        for column, ends in self._lists:
            of = ends[start : stop + 1]
            lengths, first, last = np.diff(of), int(of[0]), int(of[-1])
            place = np.repeat(at - (of[:-1] - first), lengths) + np.arange(last - first)
            words = np.empty((last - first, 1), np.uint32), np.empty((last - first, 1))
            column.put(first, last, base, 0, *words)
            indices[place], values[place] = words[0][:, 0], words[1][:, 0]
            at += lengths

    def _put_single(
        self, start: int, stop: int, base: int, indices: NDArray[Any], values: NDArray[Any]
    ) -> None:
        """Write what each row has once: indices and values of shape (n_rows, n_single)."""
        for k, column in enumerate(self._single):
            column.put(start, stop, base, k, indices, values)

    def column_of(self, row: int, place: int) -> int:
        """Return the column of an entry of a row."""
        return place

    def column(self, column: int) -> str:
        """Return which column it is, for people."""
        if column < len(self._names):
            return f"column {self._names[column]}"
        return "a cross, or a word"
