import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklinear.errors import MemoryBudgetError
from blocklinear.memory import PROCESS_BYTES
from blocklinear.options import TrainOptions
from blocklinear.training import train
from blocklinear.training.budget import ENOUGH_BLOCKS, plan_memory
from training.small import split_text

MIB = 1 << 20


def named_budget(error):
    """The bytes that a message says would do."""
    return int(re.search(r"give --memory (\d+)M or more", str(error))[1]) * MIB


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    text = "".join(f"{i % 2} {i}:1 2000000:{i}\n" for i in range(1, 61))
    return split_text(tmp_path_factory.mktemp("budget"), text, blocks=3)


@pytest.fixture(scope="module")
def large(store):
    """The manifest of a store of 40 blocks of about 12 MB."""
    block = replace(store.manifest.blocks[0], rows=1000, nnz=MIB, bytes=MIB)
    return replace(store.manifest, n_features=1000, blocks=[block] * 40)


def test_too_little_says_the_arithmetic_and_what_would_do(store):
    with pytest.raises(MemoryBudgetError) as caught:
        plan_memory(store.manifest, TrainOptions(memory_bytes=120 * MIB))
    text = str(caught.value)
    assert caught.value.exit_code == 7
    assert "the budget of 120M is too small: the program takes 110M" in text
    assert "3 weight vectors of 2000000 features 45.8M" in text
    assert "1 of 3 blocks a visit" in text
    enough = named_budget(caught.value)
    with pytest.raises(MemoryBudgetError):
        plan_memory(store.manifest, TrainOptions(memory_bytes=enough - 2 * MIB))
    model = train(store, TrainOptions(memory_bytes=enough, max_outer=1))
    assert model.n_features == 2_000_000


@settings(max_examples=100, deadline=None)
@given(
    memory=st.integers(1, 1200),
    group=st.none() | st.integers(1, 50),
    n_blocks=st.integers(1, 40),
)
def test_a_plan_fits_or_names_a_budget_that_does(large, memory, group, n_blocks):
    manifest = replace(large, blocks=large.blocks[:n_blocks])
    options = TrainOptions(memory_bytes=memory * MIB, group=group)
    try:
        plan = plan_memory(manifest, options)
    except MemoryBudgetError as error:
        enough = named_budget(error)
        assert enough > memory * MIB
        plan = plan_memory(manifest, replace(options, memory_bytes=enough))
    assert 1 <= plan.group <= n_blocks
    assert 0 <= plan.pin_bytes < 1200 * MIB
    if group is not None:
        assert plan.group == min(group, n_blocks)


def test_more_memory_holds_more_blocks_a_visit_up_to_enough_then_all(large):
    budgets = [PROCESS_BYTES + size * MIB for size in (30, 100, 300, 450, 700)]
    plans = [plan_memory(large, TrainOptions(memory_bytes=budget)) for budget in budgets]
    groups = [plan.group for plan in plans]
    assert groups == sorted(groups)
    assert groups[0] == 1
    assert 1 < groups[1] < groups[2] < ENOUGH_BLOCKS
    assert groups[3:] == [ENOUGH_BLOCKS, 40]
    assert plans[3].pin_bytes > 20 * MIB  # spare memory keeps blocks instead


def test_a_group_asked_for_that_does_not_fit_is_refused(large):
    with pytest.raises(MemoryBudgetError, match=r"20 of 40 blocks a visit.*\n.*a smaller --group"):
        plan_memory(large, TrainOptions(memory_bytes=PROCESS_BYTES + 100 * MIB, group=20))


def test_single_precision_takes_less(large):
    options = TrainOptions(memory_bytes=PROCESS_BYTES + 100 * MIB)
    half = replace(large, dtype="float32")
    assert plan_memory(half, options).group > plan_memory(large, options).group
