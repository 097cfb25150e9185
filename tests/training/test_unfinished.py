"""What a run that was broken off has reached is not deleted without being asked for."""

import contextlib
import json
from dataclasses import replace

import pytest

from blocklinear.errors import (
    DamagedError,
    InputError,
    MismatchError,
    StoppedError,
    StorageError,
    UsageError,
)
from blocklinear.events import MethodChosen, OuterIteration, WarmStarted, Warned, ignore
from blocklinear.options import TrainOptions
from blocklinear.selection.cross_validation import cross_validate
from blocklinear.store.changes import remove
from blocklinear.training import checkpoint, train
from blocklinear.training.checkpoint import Checkpoint, _checksum
from blocklinear.training.garbage import collect_garbage
from blocklinear.training.loop import train_models
from training.classes import several_classes
from training.small import Heard, long_problem, outcome, split_problem
from training.test_resume import Breaks

N_BLOCKS = 5


@pytest.fixture
def store(tmp_path):
    return split_problem(tmp_path, long_problem(), N_BLOCKS)


def how(**changes):
    return long_problem().options(**({"gap": 1e-9, "group": 2, "max_outer": 6} | changes))


def break_off(store, options, every=4, trainer=train):
    breaks = Breaks(every)
    with pytest.raises(StoppedError, match="a checkpoint is saved"):
        trainer(store, options, breaks.listen, breaks.halt)


def files(store):
    return {path: path.read_bytes() for path in (store.folder / "runs").rglob("*")
            if path.is_file()}  # fmt: skip


def facts_of(store, name="default"):
    return Checkpoint(store.folder / "runs" / name).facts


def rewrite(store, change):
    """Change the facts of a checkpoint, as another version may have written them."""
    path = store.folder / "runs" / "default" / "checkpoint.json"
    body = json.loads(path.read_bytes())["checkpoint"]
    change(body)
    path.write_text(json.dumps({"checksum": _checksum(body), "checkpoint": body}))


def test_a_run_that_was_broken_off_is_not_discarded(store):
    options = how()
    unbroken = outcome(store, replace(options, run="whole"))
    break_off(store, options)
    before = files(store)
    for other in (options, replace(options, cost=9.0), replace(options, method="pegasos")):
        with pytest.raises(MismatchError, match="broken off in outer iteration 2") as caught:
            train(store, other)
        assert caught.value.exit_code == 5
        for choice in ("--resume", "--restart", "--run NAME"):
            assert choice in caught.value.fix
        assert files(store) == before
    train(store, replace(options, run="another", max_outer=1))
    assert {path: data for path, data in files(store).items() if path in before} == before
    assert outcome(store, replace(options, resume=True))[0] == unbroken[0]


def test_the_blocks_that_a_run_has_drawn_are_no_others(store):
    """It can be resumed as long as the store has the blocks that it had."""
    break_off(store, how(sample_blocks=3, seed=3))
    with pytest.raises(MismatchError, match="broken off in outer iteration") as caught:
        train(store, how())
    assert "have changed" not in caught.value.what
    assert "--resume" in caught.value.fix


def test_restarted_it_begins_anew(store):
    options = how()
    unbroken = outcome(store, replace(options, run="whole"))
    break_off(store, replace(options, cost=3.0))
    assert outcome(store, replace(options, restart=True)) == unbroken
    assert outcome(store, replace(options, restart=True)) == unbroken  # also if it is not needed
    for other in ("resume", "warm_start"):
        with pytest.raises(UsageError, match="restart"):
            TrainOptions(restart=True, **{other: True})


@pytest.mark.parametrize(
    "changes", [{}, {"gap": 0.1}, {"max_outer": 1}, {"time_limit_s": 1e-9}], ids=str
)
def test_a_finished_run_is_no_obstacle(store, changes):
    for _ in range(2):
        train(store, how(**changes))
        assert facts_of(store)["finished"]
    train(store, how(max_outer=8, resume=True))
    train(store, how(warm_start=True))
    train(store, how(cost=3.0))


def test_resumed_and_broken_off_again_it_is_not_finished(store):
    train(store, how(max_outer=2))
    break_off(store, how(resume=True))
    assert facts_of(store)["finished"] is False
    with pytest.raises(MismatchError):
        train(store, how())


@pytest.mark.parametrize("grid", [False, True])
def test_a_run_is_finished_only_when_its_model_is_kept(store, grid):
    def trainer(store, options, keep=lambda models: None):
        if grid:
            return train_models(store, options, ignore, lambda: False, keep, None)
        return train(store, options, keep=keep)

    options = how(costs=(0.5, 2.0)) if grid else how()

    def no_room(found):
        raise StorageError("model: write failed: no space")

    with pytest.raises(StorageError):
        trainer(store, options, keep=no_room)
    with pytest.raises(MismatchError, match="broken off"):
        trainer(store, options)
    kept = []
    found = trainer(store, replace(options, resume=True), keep=kept.append)
    assert kept == [found]
    trainer(store, options)


def test_started_from_it_goes_on(store):
    break_off(store, how(cost=3.0))
    reached = facts_of(store)["outer"]
    heard = Heard()
    train(store, how(warm_start=True), heard)
    assert reached
    assert not heard.of(Warned) or "beginning" not in heard.of(Warned)[0].message


def test_a_warm_start_that_cannot_go_on_does_not_discard_it(store):
    break_off(store, how(solver=13))
    before = files(store)
    with pytest.raises(MismatchError, match="broken off"):
        train(store, how(solver=3, warm_start=True))
    assert files(store) == before
    train(store, how(solver=13, resume=True))
    train(store, how(solver=3, warm_start=True))  # finished: it may


def test_cross_validation_leaves_runs_alone(store):
    break_off(store, how())
    before = files(store)
    cross_validate(store, how(max_outer=2), n_folds=2, costs=[1.0])
    breaks = Breaks(3)
    with pytest.raises(StoppedError):
        cross_validate(
            store, how(), n_folds=2, costs=[1.0], listener=breaks.listen, halt=breaks.halt
        )
    assert files(store) == before
    assert [path.name for path in (store.folder / "runs").iterdir()] == ["default"]
    train(store, how(resume=True))


def test_parts_of_a_run_are_the_run(tmp_path, monkeypatch):
    problem = several_classes(6)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    options = problem.options(gap=1e-9, group=1, max_outer=4)

    def in_two(store, options, n, *rest, **more):
        return [slice(0, 3), slice(3, n)]

    monkeypatch.setattr("blocklinear.training.parts.split_to_fit", in_two)
    heard = Heard()

    def in_the_second_part():
        return len([event for event in heard.of(OuterIteration) if event.outer == 1]) > 1

    with pytest.raises(StoppedError, match="a checkpoint is saved"):
        train(store, options, heard, in_the_second_part)
    names = {path.name for path in (store.folder / "runs").iterdir()}
    assert {"default.part1of2", "default.part2of2"} <= names
    before = files(store)
    with pytest.raises(MismatchError, match="run 'default' was broken off"):
        train(store, options)
    assert files(store) == before
    monkeypatch.undo()  # more memory: trained anew it would have one part
    with pytest.raises(MismatchError, match="run 'default' was broken off"):
        train(store, options)
    assert files(store) == before
    for old, new in ((2, 4), (4, 2)):  # as of more models: six are of no four equal parts
        for k in (1, 2):
            part = store.folder / f"runs/default.part{k}of{old}"
            part.rename(part.with_name(f"default.part{k}of{new}"))
        if new == 4:
            with pytest.raises(MismatchError, match="in 4 parts, and there are 6 models now"):
                train(store, replace(options, resume=True))
    heard = Heard()
    train(store, replace(options, resume=True), heard)
    assert not [event for event in heard.of(Warned) if "checkpoint" in event.message]
    assert {path.name for path in (store.folder / "runs").iterdir()} == names
    with pytest.raises(MismatchError, match="trained in 2 parts, and held-out rows are scored by"):
        train(store, replace(options, resume=True, evaluate=str(tmp_path / "none.svm")))
    train(store, options)  # it came to its end, and is trained anew as a whole
    assert {path.name for path in (store.folder / "runs").iterdir()} == {"default"}
    monkeypatch.setattr("blocklinear.training.parts.split_to_fit", in_two)
    train(store, options)
    break_off(store, replace(options, cost=3.0))  # in the first part, once there was another run
    resumed = train(store, replace(options, cost=3.0, resume=True))
    unbroken = train(store, replace(options, cost=3.0))
    assert resumed.weights.tobytes() == unbroken.weights.tobytes()
    monkeypatch.undo()
    train(store, replace(options, restart=True))
    assert not [path for path in files(store) if "part" in path.parent.name]


def test_a_resume_in_parts_begins_those_that_were_not_begun(tmp_path, monkeypatch):
    """Nothing is said of checkpoints that they lack, and they start warm as the others did."""
    problem = several_classes(6)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    options = problem.options(gap=1e-9, group=1, max_outer=4)
    warm = replace(options, cost=3.0, warm_start=True)
    for name in ("whole", "broken"):
        train(store, replace(options, run=name))
    monkeypatch.setattr(
        "blocklinear.training.parts.split_to_fit",
        lambda store, options, n, *rest, **more: [slice(0, 3), slice(3, n)],
    )
    heard = Heard()
    unbroken = train(store, replace(warm, run="whole"), heard)
    assert len(heard.of(WarmStarted)) == 2  # though it had one part before
    break_off(store, replace(warm, run="broken"))
    heard = Heard()
    resumed = train(store, replace(warm, run="broken", resume=True, warm_start=False), heard)
    assert resumed.weights.tobytes() == unbroken.weights.tobytes()
    assert not [event for event in heard.of(Warned) if "checkpoint" in event.message]
    assert len(heard.of(WarmStarted)) == 1
    names = {path.name for path in (store.folder / "runs").iterdir()}
    assert names == {f"{run}.part{k}of2" for run in ("whole", "broken") for k in (1, 2)}
    monkeypatch.undo()
    heard = Heard()  # and back
    train(store, replace(warm, run="whole", cost=1.0), heard)
    assert len(heard.of(WarmStarted)) == 1
    assert {path.name for path in (store.folder / "runs").iterdir()} == {
        "broken.part1of2",
        "broken.part2of2",
        "whole",
    }


@pytest.mark.parametrize(
    ("name", "why"),
    [("default.part1of2", "no name of a part of a run"), ("default.cv", "no name that cv uses")],
)
def test_the_name_of_a_run_is_none_that_others_use(name, why):
    with pytest.raises(UsageError, match=why):
        TrainOptions(run=name)


@pytest.mark.parametrize("warm", [False, True])
def test_a_resume_in_parts_is_by_their_method(tmp_path, monkeypatch, warm):
    """Neither by what memory there is now, nor by that of a run in one part before."""
    problem = several_classes(6, 7, cost=100.0)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    options = problem.options(method="dual", gap=1e-9, group=1, max_outer=4)
    if warm:
        train(store, problem.options(method="newton", gap=1e-3))
    in_two = [slice(0, 3), slice(3, 6)]
    monkeypatch.setattr("blocklinear.training.parts.split_to_fit", lambda *_, **__: in_two)
    break_off(store, replace(options, warm_start=warm))
    heard = Heard()
    train(store, replace(options, method="auto", resume=True), heard)
    (choice,) = heard.of(MethodChosen)
    assert choice == MethodChosen("dual", "the run to go on from was trained by it")


def test_parts_of_a_run_share_its_time_limit(tmp_path, monkeypatch):
    """A later part said what was left of the limit: not converged after 1e-09 seconds."""
    problem = several_classes(6)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    monkeypatch.setattr(
        "blocklinear.training.parts.split_to_fit",
        lambda store, options, n, *rest, **more: [slice(0, 3), slice(3, n)],
    )
    heard = Heard()
    model = train(store, problem.options(gap=1e-9, time_limit_s=1e-6), heard)
    assert model.metadata["stopped"] == "1e-06 seconds"
    said = [event.message for event in heard.of(Warned)]
    assert [message.split(":")[0] for message in said] == ["not converged after 1e-06 seconds"] * 2


def test_a_warm_start_in_parts_is_resumed_in_its_first_part(tmp_path, monkeypatch):
    problem = several_classes(6)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    options = problem.options(gap=1e-9, group=1, max_outer=4)
    warm = replace(options, cost=3.0, warm_start=True)
    monkeypatch.setattr(
        "blocklinear.training.parts.split_to_fit",
        lambda store, options, n, *rest, **more: [slice(0, 3), slice(3, n)],
    )
    for name in ("whole", "broken"):
        train(store, replace(options, run=name))
    unbroken = train(store, replace(warm, run="whole"))
    break_off(store, replace(warm, run="broken"))
    resumed = replace(warm, run="broken", resume=True, warm_start=False)
    with pytest.raises(MismatchError, match="cost was 3"):
        train(store, replace(resumed, cost=2.0))
    assert train(store, resumed).weights.tobytes() == unbroken.weights.tobytes()
    with pytest.raises(MismatchError, match="cost was 3") as caught:
        train(store, replace(resumed, cost=2.0))
    assert "--warm-start" in caught.value.fix


def test_a_run_that_cannot_begin_discards_no_finished_one(store, tmp_path):
    train(store, how())
    before = files(store)
    (tmp_path / "bad.svm").write_text("1 3:x\n")
    with pytest.raises(InputError, match="not a decimal number"):
        train(store, how(evaluate=str(tmp_path / "bad.svm")))
    assert files(store) == before


def test_what_gc_took_rows_from_cannot_be_resumed(store):
    break_off(store, how())
    store = remove(store, blocks=[1])
    collect_garbage(store)
    with pytest.raises(MismatchError, match="broken off") as caught:
        train(store, how())
    assert "--warm-start" in caught.value.fix
    assert "--resume" not in caught.value.fix
    train(store, how(warm_start=True))


def test_a_damaged_checkpoint_is_told_of(store):
    break_off(store, how())
    path = store.folder / "runs" / "default" / "checkpoint.json"
    path.write_bytes(path.read_bytes()[:-1])
    heard = Heard()
    train(store, how(), heard)
    assert "is not a checkpoint: the run starts from the beginning" in heard.of(Warned)[0].message


def test_checkpoints_of_newer_versions_are_left(store):
    break_off(store, how())
    rewrite(store, lambda body: body.update(format=checkpoint.FORMAT + 1))
    before = files(store)
    for changes in ({}, {"resume": True}, {"warm_start": True}):
        with pytest.raises(MismatchError, match="is newer than") as caught:
            train(store, how(**changes))
        assert "--restart" in caught.value.fix
        assert files(store) == before
    train(store, how(restart=True))


def test_what_cannot_be_noted_is_told_of(store, monkeypatch):
    def full(self):
        raise StorageError("checkpoint.json: write failed: no space")

    monkeypatch.setattr(Checkpoint, "finish", full)
    heard = Heard()
    assert train(store, how(), heard)
    assert "the next run of this name needs --restart" in heard.of(Warned)[-1].message


@pytest.mark.parametrize("linked", ["runs", "runs/default", "runs/default.part1of2"])
def test_restarting_deletes_nothing_outside_of_the_store(store, tmp_path, linked):
    break_off(store, how())
    if "part" in linked:
        (store.folder / "runs/default").rename(store.folder / linked)
    elsewhere = tmp_path / "elsewhere"
    (store.folder / linked).rename(elsewhere)
    (store.folder / linked).symlink_to(elsewhere)
    before = sorted(path for path in elsewhere.rglob("*") if path.is_file())
    with contextlib.suppress(DamagedError):
        train(store, how(restart=True))
    assert before
    assert sorted(path for path in elsewhere.rglob("*") if path.is_file()) == before
