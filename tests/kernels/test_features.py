"""The table of the numbers of features, against a dict; rows sorted, against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklinear.kernels.blocks import features

LAST = 2**32 - 1
STOP = 1_002_001
indices_of_features = st.lists(
    st.integers(0, 40) | st.integers(1000, 1050) | st.integers(10**6, STOP - 1), max_size=60
)


class Table:
    def __init__(self, most_pages=20, stop=STOP):
        self.table = np.zeros(stop, np.uint32)
        self.written = np.zeros((stop >> features.PAGE_BITS) + 1, np.uint8)
        self.most_pages, self.state = most_pages, np.zeros(features.N_STATE, np.int64)

    def number(self, indices, chosen=None):
        some = indices if chosen is None else indices[chosen]
        n = features.number(some, self.table, self.written, self.most_pages, self.state)
        if chosen is not None:
            indices[chosen] = some
        return n

    def look_up(self, indices):
        missing = np.empty(len(indices), np.uint32)
        return missing[: features.look_up(indices, self.table, missing)]

    def numbered(self, first, n):
        found = np.zeros(n, np.uint32)
        features.numbered(self.table, self.written, first, found)
        return found.tolist()


def as_array(indices):
    return np.array(indices, np.uint32)


@settings(deadline=None, max_examples=60)
@given(indices_of_features, indices_of_features)
def test_features_are_numbered_in_the_order_they_come(first, then):
    table, known = Table(), {}
    for text in (first, then):
        indices = as_array(text)
        missing = table.look_up(indices)
        assert missing.tolist() == [p for p, i in enumerate(text) if i not in known]
        assert indices.tolist() == [known.get(i, i) for i in text]
        for i in text:
            known.setdefault(i, len(known))
        assert table.number(indices, missing) == len(missing)
        assert indices.tolist() == [known[i] for i in text]
        again = as_array(text)
        assert table.number(again) == len(text)
        assert again.tolist() == indices.tolist()
    assert table.state[features.FEATURES] == len(known)
    for start in (0, len(known) // 2, len(known)):
        assert table.numbered(start, len(known) - start) == list(known)[start:]


def test_pages_run_out():
    table = Table(most_pages=2)
    indices = as_array([5, 5000, 6, 70_000, 7])
    assert table.number(indices) == 3  # nothing was done from there on
    assert indices.tolist() == [0, 1, 2, 70_000, 7]
    assert table.number(as_array([7, 5001])) == 2


@pytest.mark.parametrize(
    ("lengths", "largest"),
    [
        ([], 1),
        ([0], 1),
        ([0, 0, 5, 0], 9),
        ([3, 1, 0, 40, 7], 1 << 10),
        ([2000, 1, 2000], 1 << 21),
        ([30] * 60, 1 << 23),  # three digits
        ([5, 200], LAST),
        ([features.TILE + 5, 3, features.TILE - 1, 0, 2, 1], 1 << 30),
        ([0] * (features.TILE + 3) + [4], 100),
    ],
    ids=lambda case: str(case)[:40],
)
@pytest.mark.parametrize("flagged", [False, True])
def test_rows_are_sorted(lengths, largest, flagged):
    rng = np.random.default_rng(0)
    lengths = np.array(lengths, np.int64)
    rows = [rng.choice(largest + 1, n, replace=False) if n < largest // 2 else rng.permutation(n)
            for n in lengths.tolist()]  # fmt: skip
    indices = np.concatenate([*rows, []]).astype(np.uint32)
    mantissa = np.arange(len(indices)) - 7
    exponent = (np.arange(len(indices)) % 256).astype(np.uint8)
    orders = [np.argsort(row) for row in rows]
    starts = np.cumsum(lengths) - lengths
    order = np.concatenate([*(o + s for o, s in zip(orders, starts, strict=True)), []]).astype(int)
    expected = indices[order], mantissa[order], exponent[order]
    unsorted = np.zeros(len(lengths) if flagged else 0, np.uint8)
    features.sort_rows(lengths, indices, mantissa, exponent, unsorted)
    for found, wanted in zip((indices, mantissa, exponent), expected, strict=True):
        assert found.tolist() == wanted.tolist()
    decreasing = [bool((np.diff(row.astype(np.int64)) < 0).any()) for row in rows]
    assert unsorted.tolist() == (decreasing if flagged else [])


@pytest.mark.parametrize("longest", [1, 3, 64, 300, features.TILE + 1])
@pytest.mark.parametrize("largest", [0, 5, 1000, LAST])
def test_entries_of_one_index_stay_in_their_order(longest, largest):
    rng = np.random.default_rng(longest)
    lengths = np.append(rng.integers(0, longest + 1, 50), longest)
    indices = rng.integers(0, largest + 1, lengths.sum()).astype(np.uint32)
    indices[rng.random(len(indices)) < 0.3] = largest
    mantissa, exponent = np.arange(len(indices)), np.arange(len(indices)).astype(np.uint8)
    row = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((mantissa, indices, row))
    expected = indices[order], mantissa[order], exponent[order]
    features.sort_rows(lengths, indices, mantissa, exponent, np.zeros(0, np.uint8))
    for found, wanted in zip((indices, mantissa, exponent), expected, strict=True):
        assert found.tolist() == wanted.tolist()


def test_the_last_index_of_a_table():
    table = Table(stop=1025)
    indices = as_array([1024, 0, 1024])
    assert table.number(indices) == 3
    assert indices.tolist() == [0, 1, 0]
    assert table.state.tolist() == [2, 2]
    indices = as_array([0, 1, 1024, 1023])
    assert table.look_up(indices).tolist() == [1, 3]
    assert indices.tolist() == [1, 1, 0, 1023]
    assert table.numbered(0, 2) == [1024, 0]
