import re
from dataclasses import replace
from itertools import product

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.errors import MemoryBudgetError
from blocklinear.memory import PROCESS_BYTES, RowsHeldOut, enough, parse_size
from blocklinear.options import TrainOptions
from blocklinear.solvers.working_set import ROW_BYTES, sample_entries
from blocklinear.store.prefetch import GroupLoader
from blocklinear.store.store import BlockStore
from blocklinear.training import memory_plan, train
from blocklinear.training.memory_plan import (
    ENOUGH_BLOCKS,
    NEWTON_VECTORS,
    WORKING_SET_SHARE,
    budget_for_newton,
    group_bytes,
    plan_memory,
    plan_that_fits,
)
from training.small import split_text

MIB = 1 << 20


def named_budget(error):
    """The bytes that a message says would do."""
    return int(re.search(r"give --memory (\d+)M or more", str(error))[1]) * MIB


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    text = "".join(f"{i % 2} {i}:1 2000000:{i}\n" for i in range(1, 61))
    return split_text(tmp_path_factory.mktemp("budget"), text, blocks=3, renumber=False)


@pytest.fixture(scope="module")
def large(store):
    """The manifest of a store of 40 blocks of about 12 MB."""
    block = replace(store.manifest.blocks[0], rows=1000, nnz=MIB, bytes=MIB)
    return store_of(replace(store.manifest, blocks=[block] * 40), 40)


def store_of(manifest, n_blocks, n_features=1000):
    """The manifest of some of the blocks of a store."""
    blocks = manifest.blocks[:n_blocks]
    n_rows, nnz = sum(block.rows for block in blocks), sum(block.nnz for block in blocks)
    return replace(manifest, n_features=n_features, blocks=blocks, n_rows=n_rows, nnz=nnz)


def test_too_little_says_the_arithmetic_and_what_would_do(store):
    with pytest.raises(MemoryBudgetError) as caught:
        plan_memory(store.manifest, TrainOptions(memory_bytes=100 * MIB))
    text = str(caught.value)
    assert caught.value.exit_code == 7
    assert "the budget of 100M is too small: the program takes 80M" in text
    assert "3 weight vectors of 2000000 features 45.8M" in text
    assert "1 of 3 blocks in a group" in text
    enough = named_budget(caught.value)
    with pytest.raises(MemoryBudgetError):
        plan_memory(store.manifest, TrainOptions(memory_bytes=enough - 2 * MIB))
    model = train(store, TrainOptions(memory_bytes=enough, max_outer=1))
    assert model.n_features == 2_000_000


def test_many_labels_of_many_blocks_take_memory(large):
    """9,000 values to regress on in 40 blocks are 360,000 counts, which are there twice."""
    options = TrainOptions(memory_bytes=256 * MIB)
    values = replace(large, labels=[float(k) for k in range(9000)])
    assert plan_memory(values, options) == plan_memory(
        large, replace(options, memory_bytes=(256 - 5) * MIB)
    )
    two = replace(large, labels=[0.0, 1.0])
    assert plan_memory(two, options) == plan_memory(large, options)


@pytest.mark.parametrize("group", [1, 2, 4])
def test_blocks_of_other_shapes_have_room_one_after_the_other(store, group):
    """Buffers have room for the rows of some blocks, and the entries of others."""
    (one, *_), options = store.manifest.blocks, TrainOptions()
    short, long = replace(one, rows=200_000, nnz=200_000), replace(one, rows=4000, nnz=MIB)
    packed = replace(one, bytes=MIB)  # and another one takes most bytes on disk
    manifest = store_of(replace(store.manifest, blocks=[short, long, packed] * 4), 12)
    with GroupLoader(BlockStore(store.folder, manifest), group, 1) as loader:
        arrays = [array for buffer in loader._buffers for array in vars(buffer).values()]
    solved = 48 * min(group, 4) * short.rows
    most = sum(array.nbytes for array in arrays) + solved + 2 * packed.bytes
    assert most <= group_bytes(manifest, options, group, 1)


@pytest.mark.parametrize("width", [1, 2, 20, 40])
def test_no_plan_depends_on_threads(large, width):
    for room in range(26, 80, 6):
        budget = PROCESS_BYTES + room * MIB + 20 * MIB * width // 20
        plans = set()
        for threads in (1, 2, 5):
            options = TrainOptions(memory_bytes=budget, threads=threads)
            plans.add(plan_memory(large, options, width))
        assert len(plans) == 1


def bytes_of(manifest, options, plan):
    """What a plan takes, added up once more."""
    copies = plan.working_set_entries > 0 and options.selection == "active"
    vectors = 3 - 2 * copies + (options.patience is not None) + options.average
    vectors += (NEWTON_VECTORS + (options.solver == 3)) * plan.newton
    entry = 12 if manifest.dtype == "float64" else 8
    largest = max(manifest.blocks, key=lambda block: entry * block.nnz + 32 * block.rows)
    buffers = 1 if plan.group == len(manifest.blocks) else 2
    group = plan.group * (buffers * (entry * largest.nnz + 32 * largest.rows) + 48 * largest.rows)
    active_rows = plan.working_set_entries / (manifest.nnz / manifest.n_rows)
    active = entry * plan.working_set_entries + ROW_BYTES * active_rows
    active = max(active, copies * 8 * (manifest.n_features + 1))  # where w is recomputed
    weights = 8 * vectors * (manifest.n_features + 1)
    return (
        PROCESS_BYTES + weights + group + largest.bytes + active + plan.pin_bytes + plan.spare_bytes
    )


OPTIONS = st.fixed_dictionaries(
    {
        "group": st.none() | st.integers(1, 50),
        "solver": st.sampled_from([1, 3]),
        "selection": st.sampled_from(["active", "permute"]),
        "average": st.booleans(),
        "patience": st.sampled_from([None, 3]),
    }
).map(lambda options: options | {"evaluate": "rows.svm" if options["patience"] else None})


@examples(67)
@given(
    memory=st.integers(1, 1200),
    options=OPTIONS,
    n_blocks=st.integers(1, 40),
    n_features=st.sampled_from([1000, 2_000_000]),
)
def test_a_plan_fits_or_names_a_budget_that_does(large, memory, options, n_blocks, n_features):
    manifest = store_of(large, n_blocks, n_features)
    options = TrainOptions(memory_bytes=memory * MIB, **options)
    try:
        plan = plan_memory(manifest, options)
    except MemoryBudgetError as error:
        enough = named_budget(error)
        assert enough > memory * MIB
        options = replace(options, memory_bytes=enough)
        plan = plan_memory(manifest, options)
    assert 1 <= plan.group <= n_blocks
    assert min(plan.pin_bytes, plan.spare_bytes, plan.working_set_entries) >= 0
    assert bytes_of(manifest, options, plan) <= options.memory_bytes
    assert plan.newton <= (options.selection in ("active", "permute") and not options.average)
    assert plan.newton <= (options.solver == 1 or plan.hessian)
    active = manifest.nnz // WORKING_SET_SHARE if options.selection == "active" else 0
    sample = sample_entries(manifest, active or manifest.nnz, options)
    assert plan.working_set_entries <= active + sample + 1
    if options.group is not None:
        assert plan.group == min(options.group, n_blocks)
    if plan.group == n_blocks or options.average:
        assert plan.working_set_entries == 0


@pytest.mark.parametrize("options", [{}, {"selection": "permute"}, {"method": "pegasos"}], ids=str)
def test_a_budget_that_holds_little_more_than_is_needed(large, options):
    """No part of it is less than nothing, whatever is left over."""
    manifest, options = store_of(large, 20, 1000), TrainOptions(group=2, **options)
    with pytest.raises(MemoryBudgetError) as error:
        plan_memory(manifest, replace(options, memory_bytes=MIB))
    enough = named_budget(error.value)
    plans = [
        plan_that_fits(manifest, replace(options, memory_bytes=memory))
        for memory in range(enough - MIB, enough + MIB, 20_000)
    ]
    found = [plan for plan in plans if plan is not None]
    assert len(plans) > len(found) > 50
    for plan in found:
        assert min(plan.pin_bytes, plan.spare_bytes, plan.working_set_entries) >= 0


@pytest.mark.parametrize("solver", [3, 6])
def test_one_group_of_all_blocks_takes_least_where_one_block_is_large(large, solver):
    """It needs no second buffer, as for a large batch and a day that was added."""
    first = large.blocks[0]
    small = replace(first, rows=10, nnz=1000, bytes=1000)
    manifest = store_of(replace(large, blocks=[first, small, small]), 3)
    options = TrainOptions(solver=solver, memory_bytes=PROCESS_BYTES)
    with pytest.raises(MemoryBudgetError, match="3 of 3 blocks") as caught:
        plan_memory(manifest, options)
    assert "--group" not in caught.value.fix
    named = named_budget(caught.value)
    assert plan_memory(manifest, replace(options, memory_bytes=named)).group == 3
    for changed in ({"memory_bytes": named - MIB}, {"memory_bytes": named, "group": 1}):
        with pytest.raises(MemoryBudgetError):
            plan_memory(manifest, replace(options, **changed))


@pytest.mark.parametrize("group", [None, 1, 3, 50])
@pytest.mark.parametrize("width", [1, 2, 9])
@pytest.mark.parametrize("others", [0, 20])
@pytest.mark.parametrize("url_bytes", [0, 5 * MIB])
@pytest.mark.parametrize("rows", [None, RowsHeldOut(50 * MIB, 60 * MIB), RowsHeldOut(1, 150 * MIB)])
def test_the_budget_that_a_refused_plan_names_is_enough(
    large, group, width, others, url_bytes, rows
):
    """As it is read from the message; every plan of a size is tried."""
    sizes = width, others, url_bytes, rows
    for n_blocks, n_features, memory in product(
        (1, 2, 7, 40), (1, 1000, 131_071, 131_072, 5_000_000), (1, 110, 140, 300)
    ):
        manifest = store_of(large, n_blocks, n_features)
        options = TrainOptions(
            group=group, memory_bytes=memory * MIB, evaluate="rows.svm" if rows else None
        )
        try:
            plan_memory(manifest, options, *sizes)
        except MemoryBudgetError as error:
            named = parse_size(re.search(r"give --memory (\S+) or more", error.fix)[1])
            assert named > memory * MIB
            plan = plan_memory(manifest, replace(options, memory_bytes=named), *sizes)
            less = replace(options, memory_bytes=named - MIB)
            with pytest.raises(MemoryBudgetError):
                plan_memory(manifest, less, *sizes)
            with pytest.raises(MemoryBudgetError) as caught:
                plan_memory(manifest, less, *sizes, facts=vars(plan))
            assert f"give --memory {enough(named)} or more" in caught.value.fix
            plan_memory(manifest, replace(options, memory_bytes=named), *sizes, facts=vars(plan))


@examples(67)
@given(
    before=st.integers(150, 1200),
    after=st.integers(1, 1200),
    options=OPTIONS,
    n_blocks=st.integers(1, 40),
)
def test_a_run_resumed_keeps_to_its_plan_or_names_a_budget_that_does(
    large, before, after, options, n_blocks
):
    manifest, options = store_of(large, n_blocks), TrainOptions(**options)
    try:
        first = plan_memory(manifest, replace(options, memory_bytes=before * MIB))
    except MemoryBudgetError:
        return
    options, facts = replace(options, memory_bytes=after * MIB), vars(first)
    try:
        plan = plan_memory(manifest, options, facts=facts)
    except MemoryBudgetError as error:
        enough = named_budget(error)
        assert enough > after * MIB
        options = replace(options, memory_bytes=enough)
        plan = plan_memory(manifest, options, facts=facts)
    for name in ("group", "newton", "working_set_entries"):
        assert getattr(plan, name) == getattr(first, name)
    assert min(plan.pin_bytes, plan.spare_bytes) >= 0
    assert bytes_of(manifest, options, plan) <= options.memory_bytes + 200


def test_the_same_budget_makes_the_same_plan_again(large):
    for budget in range(150, 1200, 50):
        options = TrainOptions(memory_bytes=budget * MIB, solver=1)
        plan = plan_memory(large, options)
        again = plan_memory(large, options, facts=vars(plan))
        assert abs(again.pin_bytes - plan.pin_bytes) < 200  # entries are whole
        assert replace(again, pin_bytes=0) == replace(plan, pin_bytes=0)


def test_more_memory_holds_more_blocks_a_visit_up_to_enough_then_all(large):
    budgets = [PROCESS_BYTES + size * MIB for size in (30, 100, 300, 450, 700)]
    options = TrainOptions(selection="permute")
    plans = [plan_memory(large, replace(options, memory_bytes=budget)) for budget in budgets]
    groups = [plan.group for plan in plans]
    assert groups == sorted(groups)
    assert groups[0] == 1
    assert 1 < groups[1] < groups[2] < ENOUGH_BLOCKS
    assert groups[3:] == [ENOUGH_BLOCKS, 40]
    assert plans[3].pin_bytes > 20 * MIB  # spare memory keeps blocks instead


@pytest.mark.parametrize("solver", [1, 3])
@pytest.mark.parametrize(("blocks", "width"), [(40, 1), (3, 1), (40, 5)])
def test_the_least_budget_for_newton_steps(large, monkeypatch, solver, blocks, width):
    monkeypatch.setattr(memory_plan, "default_budget", lambda: 1 << 30)
    manifest = store_of(large, blocks, 3000)
    options = TrainOptions(memory_bytes=PROCESS_BYTES + 50 * MIB, solver=solver)
    budget = budget_for_newton(manifest, options, width)
    if budget is None:
        budget = 2049 * MIB
    else:
        assert plan_memory(manifest, replace(options, memory_bytes=budget), width).newton
    for less in range(options.memory_bytes, budget, 8 * MIB):
        assert not plan_memory(manifest, replace(options, memory_bytes=less), width).newton


@pytest.mark.parametrize("options", [{"solver": 4}, {"solver": 21}, {"average": True}], ids=str)
def test_no_budget_has_newton_steps_follow(large, options):
    assert budget_for_newton(large, TrainOptions(memory_bytes=1 << 30, **options)) is None


def test_a_group_asked_for_that_does_not_fit_is_refused(large):
    what = r"20 of 40 blocks in a group.*\n.*a smaller --group"
    with pytest.raises(MemoryBudgetError, match=what):
        plan_memory(large, TrainOptions(memory_bytes=PROCESS_BYTES + 100 * MIB, group=20))
    with pytest.raises(MemoryBudgetError, match=r"2 of 40.*\n.*M or more, or split") as caught:
        plan_memory(large, TrainOptions(solver=21, memory_bytes=PROCESS_BYTES + MIB))
    assert "--group" not in caught.value.fix  # a one-class SVM has two blocks at least


def test_active_rows_have_a_share_but_no_more_than_half(large):
    """Of what is left by the first block of a visit: they are worth more than larger groups."""
    options = TrainOptions(memory_bytes=PROCESS_BYTES + 400 * MIB)
    active, permuted = (
        plan_memory(large, replace(options, selection=name)) for name in ("active", "permute")
    )
    enough = min(
        large.nnz / WORKING_SET_SHARE, 200 * MIB / 12.5
    )  # 12 bytes an entry, and its row's
    assert enough <= active.working_set_entries <= large.nnz / WORKING_SET_SHARE
    assert 1 < active.group <= permuted.group
    small = plan_memory(large, replace(options, memory_bytes=PROCESS_BYTES + 60 * MIB))
    assert 0 < small.working_set_entries < enough


def test_single_precision_takes_less(large):
    options = TrainOptions(memory_bytes=PROCESS_BYTES + 100 * MIB)
    half = replace(large, dtype="float32")
    assert plan_memory(half, options).group > plan_memory(large, options).group
