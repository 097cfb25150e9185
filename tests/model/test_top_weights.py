import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.errors import UsageError
from blocklinear.model import top_weights
from blocklinear.model.linear import LinearModel


@given(st.lists(st.integers(-3, 3), max_size=40), st.integers(1, 12), st.integers(1, 50))
def test_the_largest_by_size_found_in_parts(values, top, part):
    weights = np.array(values, np.float64).reshape(-1, 1)
    order = sorted(range(len(values)), key=lambda k: (-abs(values[k]), k))
    expected = [k for k in order if values[k]][:top]
    before = top_weights._FEATURES_AT_A_TIME
    top_weights._FEATURES_AT_A_TIME = part
    try:
        assert top_weights.largest(weights, 0, top).tolist() == expected
    finally:
        top_weights._FEATURES_AT_A_TIME = before


@pytest.fixture
def model():
    return LinearModel(
        weights=[[1.0, -4.0, 0.0], [-2.0, 3.0, 0.0], [0.5, 0.0, 0.0]], bias_weights=np.zeros(3),
        bias=-1.0, labels=(1.0, 2.0, 3.0), solver="L2R_L1LOSS_SVC_DUAL",
        classes={1.0: "a", 2.0: "b", 3.0: "c"}, feature_names=("x", "y"),
    )  # fmt: skip


def test_names_and_classes(model):
    assert model.top_weights() == [("y", -2.0), ("x", 1.0), ("feature 3", 0.5)]
    assert model.top_weights(1, "b") == [("x", -4.0)]
    assert model.top_weights(label="c") == []
    assert model.top_weights(2, names=["p", "q", "r"]) == [("q", -2.0), ("p", 1.0)]
    with pytest.raises(UsageError, match="label is 'd'"):
        model.top_weights(label="d")
    with pytest.raises(UsageError, match="top is 0"):
        model.top_weights(0)


def test_of_two_classes_the_sign_is_that_of_the_class():
    model = LinearModel(
        weights=[[1.0], [-2.0]], bias_weights=np.zeros(1), bias=-1.0, labels=(5.0, 3.0),
        solver="L2R_LR_DUAL", index_base=0,
    )  # fmt: skip
    assert model.top_weights() == model.top_weights(label=5) == [("feature 1", -2.0),
                                                                 ("feature 0", 1.0)]  # fmt: skip
    assert model.top_weights(label=3) == [("feature 1", 2.0), ("feature 0", -1.0)]


def test_hashes_are_no_features():
    model = LinearModel(
        weights=[[1.0], [0.0]], bias_weights=np.zeros(1), bias=-1.0, labels=(1.0, -1.0),
        solver="L2R_LR_DUAL", index_base=0, metadata={"hash_bits": 1},
    )  # fmt: skip
    assert model.top_weights() == [("hash 0", 1.0)]
