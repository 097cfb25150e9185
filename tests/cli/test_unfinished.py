"""Runs that were broken off, and the messages of the commands about them."""

import json
import signal

import numpy as np
import pytest

from blocklinear.cli.stopper import Stopper

FLAGS = ("--group", 1, "--gap", "1e-12", "-q")
CV = ("-v", 2, "-c", "0.1,1", "-q", "--max-outer", 2)


@pytest.fixture
def store(cli, tmp_path):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 30)).round(2)
    y = np.where(X @ rng.normal(size=30) + 3.0 * rng.normal(size=120) > 0, 1, -1)
    lines = [
        " ".join([str(label), *(f"{j + 1}:{x}" for j, x in enumerate(row))])
        for label, row in zip(y.tolist(), X.tolist(), strict=True)
    ]
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
    assert cli("split", tmp_path / "rows.svm", tmp_path / "store", "--blocks", 6, "-q").status == 0
    return tmp_path / "store"


@pytest.fixture
def stop_after(monkeypatch):
    """Let a signal seem to come when it was asked for so many times."""

    def stop(questions):
        asked = iter(range(questions))
        monkeypatch.setattr(Stopper, "asked", lambda self: next(asked, None) is None)
        monkeypatch.setattr(Stopper, "status", signal.SIGTERM + 128)

    return stop


def checkpoint(store):
    return (store / "runs" / "default" / "checkpoint.json").read_bytes()


@pytest.fixture
def broken_off(cli, store, tmp_path, stop_after, monkeypatch):
    stop_after(10)
    done = cli("train", store, tmp_path / "first", *FLAGS)
    assert done.status == 143
    assert "a checkpoint is saved" in done.err
    monkeypatch.undo()
    return checkpoint(store)


def test_train_refuses_to_discard_it(cli, refused, store, tmp_path, broken_off):
    command = ["train", store, tmp_path / "m", *FLAGS, "--max-outer", 3]
    said = refused(5, *command)
    assert said.splitlines()[0].startswith(f"blocklinear: {store}: run 'default' was broken off in")
    assert said.splitlines()[1] == (
        "  fix: give --resume to go on with it, --restart to delete what it reached, or another "
        "--run NAME"
    )
    assert checkpoint(store) == broken_off
    assert cli(*command, "--run", "other").status == 0
    assert cli(*command, "--resume").status == 0
    assert cli(*command).status == 0  # it is finished


def test_rows_came_after_it(cli, refused, store, tmp_path, broken_off):
    """Then it cannot be resumed: --resume was advised, and refused when it was given."""
    (tmp_path / "more").write_text("1 1:1\n-1 1:-1\n")
    assert cli("add", store, tmp_path / "more").status == 0
    command = ["train", store, tmp_path / "m", *FLAGS]
    first, fix = refused(5, *command).splitlines()[:2]
    assert first.endswith(", and the blocks of the store have changed since")
    assert fix == (
        "  fix: give --warm-start to start from its alpha, --restart to delete what it reached, or "
        "another --run NAME"
    )
    said = refused(5, "cv", store, "--refit", tmp_path / "m", "-c", "1,2")
    assert "fix: give `train --warm-start` to start from its alpha" in said
    assert cli(*command, "--warm-start").status == 0


def test_train_restarts_it(cli, refused, store, tmp_path, broken_off):
    assert cli("train", store, tmp_path / "m", *FLAGS, "--max-outer", 3, "--restart").status == 0
    cli("train", store, tmp_path / "n", *FLAGS, "--max-outer", 3, "--run", "whole")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()
    both = ("--restart", "--resume")
    assert "used without" in refused(2, "train", store, tmp_path / "m", *FLAGS, *both)


def test_what_cannot_begin_deletes_nothing(refused, store, tmp_path, broken_off):
    command = ["train", store, tmp_path / "m", *FLAGS, "--restart"]
    (tmp_path / "empty").touch()
    refused(3, *command, "--eval", tmp_path / "empty")
    refused(7, *command, "--memory", "1M")
    next((store / "features").iterdir()).unlink()
    refused(4, *command)
    assert checkpoint(store) == broken_off


def test_cv_refuses_before_it_works(cli, refused, store, tmp_path, broken_off):
    said = refused(5, "cv", store, *CV, "--refit", tmp_path / "m", "--log", tmp_path / "log")
    assert "run 'default' was broken off" in said
    assert "give `train --resume` to go on with it, --restart" in said
    assert not (tmp_path / "log").exists()  # no outer iteration
    assert checkpoint(store) == broken_off
    assert cli("cv", store, *CV).status == 0  # has no run of its own
    assert checkpoint(store) == broken_off
    assert cli("cv", store, *CV, "--refit", tmp_path / "m", "--run", "other").status == 0
    assert checkpoint(store) == broken_off
    assert cli("cv", store, *CV, "--refit", tmp_path / "m", "--restart").status == 0
    assert checkpoint(store) != broken_off


def test_a_refit_that_is_stopped_goes_on_with_train(cli, store, tmp_path, stop_after, monkeypatch):
    stop_after(10**9)
    flags = ("-v", 2, "-c", "0.1", *FLAGS, "--max-outer", 2)
    whole = cli("cv", store, *flags, "--refit", tmp_path / "whole", "--run", "whole")
    seen = 0

    class Told(Stopper):
        def asked(self):
            return (store / "runs" / "default").exists() and self.later()

        def later(self):
            nonlocal seen
            seen += 1
            return seen > 2

        status = 143

    monkeypatch.setattr("blocklinear.cli.commands.cv.Stopper", Told)
    done = cli("cv", store, *flags, "--refit", tmp_path / "m", "--json")
    assert done.status == 143
    assert json.loads(done.out)
    assert "`train` with -c 0.1 and --resume goes on with it" in done.err
    monkeypatch.undo()
    command = ["train", store, tmp_path / "m", *FLAGS, "--max-outer", 2, "-c", 0.1, "--resume"]
    assert cli(*command).status == 0
    assert whole.status == 0
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
