"""Arrays on their way between workers: the same numbers in fewer bytes."""

import numpy as np
import pytest

from blocklinear.cluster.sums import Change, Packed, added, squares_of


def sparse(rng, n, width, share, dtype=np.float64):
    array = rng.normal(size=(n, width)).astype(dtype)
    array[rng.random(n) > share] = 0.0
    if width > 1:
        array[rng.random((n, width)) > 0.7] = 0.0
    return array


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "shares", [(0.1, 0.1), (0.1, 0.9), (0.9, 0.1), (0.4, 0.5), (0.0, 0.2), (1, 1)]
)
def test_sums_are_those_of_whole_arrays_to_the_last_bit(shares, dtype, width):
    rng = np.random.default_rng(3)
    one, other = (sparse(rng, 500, width, share, dtype) for share in shares)
    packed = [Packed.of(one), Packed.of(other)]
    for array, of in zip((one, other), packed, strict=True):
        assert of.whole().dtype == dtype
        np.testing.assert_array_equal(of.whole(), array)
        assert of.nbytes <= array.nbytes
    np.testing.assert_array_equal(packed[0].plus(packed[1]).whole(), one + other)
    np.testing.assert_array_equal(packed[1].plus(packed[0]).whole(), one + other)
    assert packed[0].plus(packed[1]).nbytes <= one.nbytes


def test_few_rows_take_few_bytes():
    array = np.zeros((1000, 1))
    array[[5, 700]] = [[1.0], [2.0]]
    packed = Packed.of(array)
    assert packed.nbytes == 2 * (8 + 4)
    assert packed.places.tolist() == [5, 700]


def test_nothing_and_no_rows():
    assert Packed.of(np.zeros((10, 2))).nbytes == 0
    assert Packed.of(np.zeros((0, 1))).whole().shape == (0, 1)


def test_squares_are_added_part_by_part():
    rng = np.random.default_rng(4)
    parts = [[sparse(rng, 60, 1, 0.3), sparse(rng, 60, 2, 0.2)] for _ in range(3)]
    changes = [Change([Packed.of(a) for a in part], None, ()) for part in parts]
    total = added(added(changes[0], changes[1]), changes[2])
    expected = np.zeros(60, np.float32)
    for part in parts:
        expected += np.sum([np.square(a).sum(axis=1) for a in part], axis=0).astype(np.float32)
    np.testing.assert_array_equal(squares_of(total).whole()[:, 0], expected)
    np.testing.assert_array_equal(total.weights[1].whole(), sum(part[1] for part in parts))
