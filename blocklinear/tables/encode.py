"""Rows of a table to features, as a recipe says."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.batches.tables import Entries, Table
from blocklinear.errors import InputError
from blocklinear.numerals import format_number
from blocklinear.recipe import MISSING, MOST_VALUES, Recipe
from blocklinear.tables import hashing
from blocklinear.tables.columns import Cells, Features, Words, row_of
from blocklinear.tables.values import (
    FileRows,
    Floats,
    Integers,
    codes_of,
    lengths_of,
    numbers_of,
    refuse_missing,
    strings_of,
    text_of,
    without_missing_lists,
)


@dataclass(frozen=True)
class _Values:
    """What is known of the values of a dictionary array; the last place is that of missing ones."""

    dictionary: Any  # pyarrow Array
    texts: list[str]  # empty where values are hashed
    # int64[n]: features of the recipe's dictionary, -1 for none; changed as values get some; empty
    # where values are hashed
    known: Integers
    hashes: hashing.Hashes  # uint64[n]: empty where the recipe has a dictionary
    features: Features  # uint32[n]: of the hashes


@dataclass(frozen=True)
class _Listed:
    """The values of a part in a column whose features are those of a dictionary."""

    codes: NDArray[np.int32]  # int32[any]: which value of a dictionary array each is
    values: _Values  # of that array
    indptr: Integers | None  # int64[n_rows + 1]


class Encoder:
    """Makes rows of features of parts of tables, in order.

    Parameters
    ----------
    growing : bool            whether values that are new get a feature; else they are counted, and
                              have none

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
        self._names = recipe.names
        self._places = {j: at for at, j in enumerate(recipe.numbers)}
        self._seeds = [hashing.seed_of(name) for name in self._names]
        self._crosses = [
            (i, j, hashing.seed_of(f"{self._names[i]}*{self._names[j]}"))
            for i, j in recipe.interactions
        ]
        self._known: dict[int, _Values] = {}
        kinds = [column.kind for column in recipe.columns]
        self._single = [j for j, kind in enumerate(kinds) if kind != "words"]
        self._crossed = {j for pair in recipe.interactions for j in pair}
        valued = [*recipe.numbers, *(pair for pair in recipe.interactions)]
        if not recipe.hash_bits:  # values that have no feature are 0
            valued += [j for j in self._single if kinds[j] != "number"]
        self._n_valued = len(valued)
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

    def table(self, part: FileRows) -> "EncodedTable":
        """Return the features of a part.

        InputError is raised if a value cannot be a feature: the message says where.
        """
        recipe = self._recipe
        cells = Cells(len(self._single) + len(self._crosses), self._n_valued, part.n_rows)
        places = {j: k for k, j in enumerate(self._single)}
        factors: dict[int, _Factor] = {}
        listed: dict[int, _Listed] = {}
        words: list[Words] = []
        for j, column in enumerate(recipe.columns):
            array, indptr = part.columns[column.name], None
            if column.kind == "words":
                array = without_missing_lists(array)
                indptr = np.concatenate(([0], np.cumsum(lengths_of(array), dtype=np.int64)))
                array = array.flatten()
            if column.kind == "number":
                factor = self._put_numbers(part, j, array, cells, places[j])
            elif not recipe.hash_bits:
                listed[j] = self._listed(part, j, array, indptr)
                continue
            elif indptr is None:
                factor = self._put_hashed(part, j, array, None, cells.features[places[j]])
            else:
                words.append(Words(indptr, np.empty(len(array), np.uint32), np.empty(0)))
                self._put_hashed(part, j, array, indptr, words[-1].features)
                continue
            if factor is not None:
                factors[j] = factor
        self._number_new_values(part, listed)
        for j, found in listed.items():
            features = found.values.known[found.codes]
            has_feature, features = features >= 0, np.maximum(features, 0)
            if found.indptr is not None:
                words.append(
                    Words(found.indptr, features.astype(np.uint32), has_feature.astype(np.float64))
                )
                continue
            cells.features[places[j]] = features
            if not has_feature.all():
                cells.values_of(places[j])[:] = has_feature
        for k, (i, j, seed) in enumerate(self._crosses, len(self._single)):
            self._put_cross(factors[i], factors[j], seed, cells, k)
        return EncodedTable(part, self.n_features, self._names, self._single, cells, words)

    def _put_numbers(
        self, part: FileRows, j: int, array: Any, cells: Cells, k: int
    ) -> "_Factor | None":
        """Write column `j`, of numbers, as column `k` of the cells."""
        recipe, column = self._recipe, self._recipe.columns[j]
        at = self._places[j]
        mean = 0.0 if column.mean is None else column.mean
        scale = 1.0 if column.scale is None else column.scale
        features, values = cells.features[k], cells.values_of(k)
        numbers, missing = numbers_of(part, column.name, array)
        with np.errstate(over="ignore"):  # who reads the rows refuses what is too large
            np.subtract(numbers, mean, out=values)
            values /= scale
        features[:] = at
        features[missing], values[missing] = at + len(recipe.numbers), 1.0
        if j not in self._crossed:
            return None
        factors = values.copy()
        factors[missing] = 0.0
        return _Factor(np.full(part.n_rows, self._seeds[j]), factors)

    def _put_hashed(
        self, part: FileRows, j: int, array: Any, indptr: Integers | None, features: Features
    ) -> "_Factor | None":
        """Write the features of the values of column `j`, whose values are hashed."""
        name, is_crossed = self._names[j], j in self._crossed
        if hasattr(array, "dictionary"):
            values = self._values_of(part, j, array, indptr)
            codes = codes_of(part, name, array)
            features[:] = values.features[codes]
            return _Factor(values.hashes[codes], None) if is_crossed else None
        strings = strings_of(part, name, array, partial(row_of, indptr))
        hashes = self._hashes(strings, j)
        self._put_features(hashes, features)
        return _Factor(hashes, None) if is_crossed else None

    def _hashes(self, strings: Any, j: int) -> hashing.Hashes:
        """Return the hashes of values of column `j`."""
        return hashing.hash_values(*text_of(strings), strings.offset, MISSING, self._seeds[j])

    def _put_features(self, hashes: hashing.Hashes, features: Features) -> None:
        mask = np.uint64((1 << self._recipe.hash_bits) - 1)
        np.bitwise_and(hashes, mask, out=features, casting="unsafe")
        features += np.uint32(self._recipe.n_own)

    def _put_cross(
        self, one: "_Factor", other: "_Factor", seed: np.uint64, cells: Cells, k: int
    ) -> None:
        """Write the features of pairs of values as column `k` of the cells."""
        hashes = hashing.cross(seed, one.hashes, other.hashes)
        self._put_features(hashes, cells.features[k])
        factors = [factor.values for factor in (one, other) if factor.values is not None]
        if factors:
            cells.values_of(k)[:] = np.prod(factors, axis=0)

    def _listed(self, part: FileRows, j: int, array: Any, indptr: Integers | None) -> _Listed:
        if not hasattr(array, "dictionary"):
            strings = strings_of(part, self._names[j], array, partial(row_of, indptr))
            array = strings.dictionary_encode()
        codes = codes_of(part, self._names[j], array)
        return _Listed(codes, self._values_of(part, j, array, indptr), indptr)

    def _values_of(self, part: FileRows, j: int, array: Any, indptr: Integers | None) -> _Values:
        """Look up the values of a dictionary array, once for all parts that share it."""
        before = self._known.get(j)
        if before is not None and before.dictionary.equals(array.dictionary):
            return before

        def row_of_value(code: int) -> int | None:
            places = np.flatnonzero(codes_of(part, self._names[j], array) == code)
            return row_of(indptr, int(places[0])) if len(places) else None

        strings = strings_of(part, self._names[j], array.dictionary, row_of_value)
        texts: list[str] = []
        if self._recipe.hash_bits:
            hashes = self._hashes(strings, j)
            hashes = np.append(hashes, hashing.hash_text(MISSING, self._seeds[j]))
            known = np.empty(0, np.int64)
        else:
            texts = [MISSING if text is None else text for text in strings.to_pylist()] + [MISSING]
            ids, hashes = self._ids[j], np.empty(0, np.uint64)
            known = np.array([ids.get(text, -1) for text in texts], np.int64)
        features = np.empty(len(hashes), np.uint32)
        self._put_features(hashes, features)
        self._known[j] = _Values(array.dictionary, texts, known, hashes, features)
        return self._known[j]

    def _number_new_values(self, part: FileRows, listed: dict[int, _Listed]) -> None:
        """Give new values their features, row by row, then column by column; or count them."""
        new: list[tuple[int, int, int, int, str]] = []
        for j, column in listed.items():
            codes, texts = column.codes, column.values.texts
            places = np.flatnonzero(column.values.known[codes] < 0)
            if not len(places):
                continue
            if not self._growing:
                name = self._names[j]
                self.unseen[name] = self.unseen.get(name, 0) + len(places)
                continue
            found, firsts = np.unique(codes[places], return_index=True)
            for code, place in zip(found.tolist(), places[firsts].tolist(), strict=True):
                new.append((row_of(column.indptr, place), j, place, code, texts[code]))
        for row, j, _, code, value in sorted(new):
            ids = self._ids[j]
            if value not in ids:
                if len(self._entries) == MOST_VALUES:
                    raise InputError(
                        f"{part.at(row)}, column {self._names[j]}: there are more than "
                        f"{MOST_VALUES} different values",
                        "give --hash-bits, as 22, or leave out columns of many values",
                    )
                ids[value] = self._recipe.n_own + len(self._entries)
                self._entries.append((j, value))
            listed[j].values.known[code] = ids[value]

    def labels(self, part: FileRows) -> NDArray[Any]:
        """Return the labels, float64[n_rows], or text as Python has it.

        One that is missing is 0, or None among text.
        """
        target = self._recipe.target
        array = part.columns[target.name]
        if target.kind != "text":
            return numbers_of(part, target.name, array, "target")[0]
        strings = array.dictionary_decode() if hasattr(array, "dictionary") else array
        labels = np.empty(part.n_rows, object)
        labels[:] = strings.to_pylist()
        return labels

    def weights(self, part: FileRows) -> Floats | None:
        """Return the weights of rows, float64[n_rows], or None if they have none.

        InputError is raised if one is missing, or below 0.
        """
        name = self._recipe.weight
        if name is None:
            return None
        array = part.columns[name]
        refuse_missing(part, name, array, "the weight", "leave out rows without one")
        weights, _ = numbers_of(part, name, array, "weight")
        bad = np.flatnonzero(weights < 0)
        if len(bad):
            raise InputError(
                f"{part.at(int(bad[0]))}, column {name}: the weight is "
                f"{format_number(weights[bad[0]])}",
                "weights are 0 or more",
            )
        return weights


@dataclass(frozen=True)
class _Factor:
    """What a column puts into crosses."""

    hashes: hashing.Hashes  # uint64[n_rows]
    values: Floats | None  # float64[n_rows]: which the value of a cross is multiplied by


class EncodedTable(Table):
    """A part of a table as rows of features; a feature may be there several times in a row.

    Parameters
    ----------
    names : sequence of str   of the columns
    single : sequence of int  columns of which each row has one value
    cells : Cells             these columns, and crosses
    words : sequence of Words           the other columns
    """

    def __init__(
        self,
        part: FileRows,
        n_features: int,
        names: Sequence[str],
        single: Sequence[int],
        cells: Cells,
        words: Sequence[Words],
    ) -> None:
        self.kind, self.n_rows, self.n_columns = "table", part.n_rows, n_features
        self.any_width = True  # a dictionary grows
        self.place = f"{part.place}, rows {part.number(0)} to {part.number(part.n_rows - 1)}"
        if part.kept is not None:
            self.place += ", of those with a target"
        self._names = [names[j] for j in single]
        self._cells, self._words = cells, words
        self._n_single = len(cells.features)

    def _ends(self) -> Integers:
        """Return where rows would begin if all were written one after the other."""
        ends = np.arange(self.n_rows + 1, dtype=np.int64) * self._n_single
        for words in self._words:
            ends += words.indptr
        return ends

    def stop_of(self, start: int, most_rows: int, most_entries: int) -> int:
        """Return where a piece ends that begins at `start`."""
        if not self._words:
            n = min(most_rows, most_entries // max(self._n_single, 1))
        else:
            ends = self._ends()[start : start + most_rows + 1]
            n = int(np.searchsorted(ends, int(ends[0]) + most_entries, "right")) - 1
        return min(start + max(n, 1), self.n_rows)

    def n_entries(self, start: int, stop: int) -> int:
        """Return how many entries rows have, those of one feature each for itself."""
        n = (stop - start) * self._n_single
        return n + sum(int(words.indptr[stop] - words.indptr[start]) for words in self._words)

    def put(self, start: int, stop: int, base: int, out: Entries) -> None:
        """Write rows start..stop-1."""
        out.indptr[:] = np.arange(stop - start + 1, dtype=np.int64) * self._n_single
        for words in self._words:
            out.indptr[:] += words.indptr[start : stop + 1] - words.indptr[start]
        self._cells.put(start, stop, base, *out)
        at = out.indptr[:-1] + self._n_single
        for words in self._words:
            words.put(start, stop, base, at, out.indices, out.values)

    def column_of(self, row: int, place: int) -> int:
        """Return the column of an entry of a row."""
        return place

    def column(self, column: int) -> str:
        """Return which column it is, for people."""
        if column < len(self._names):
            return f"column {self._names[column]}"
        return "a cross, or a word"
