"""`train` stopped by signals, killed, or out of space: what it says, and how it goes on."""

import json
import random
import signal

import numpy as np
import programs
import pytest

from blocklinear.model.linear import LinearModel

SLOW = ["--group", 1, "--gap", 1e-12, "--max-outer", 10**6]


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """Text that takes long to train on."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 80)).round(2) * (rng.random((200, 80)) < 0.2)
    y = np.where(X @ rng.normal(size=80) + 2.0 * rng.normal(size=200) > 0, 1, -1)
    lines = [
        " ".join([str(label), *(f"{j + 1}:{x}" for j, x in enumerate(row) if x)])
        for label, row in zip(y.tolist(), X.tolist(), strict=True)
    ]
    path = tmp_path_factory.mktemp("noisy") / "rows.svm"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def store(cli, noisy, tmp_path):
    assert cli("split", noisy, tmp_path / "store", "--blocks", 8, "-q").status == 0
    return tmp_path / "store"


def weights(path):
    model = LinearModel.load(path)
    return model.weights.tobytes() + model.bias_weights.tobytes()


def checkpoint(store):
    path = store / "runs" / "default" / "checkpoint.json"
    facts = json.loads(path.read_bytes())["checkpoint"]["facts"] if path.exists() else {}
    return facts.get("outer", 0), facts.get("done", 0)


@pytest.mark.parametrize(
    "flags",
    [
        ["-s", 3, "-c", 1000, "--max-outer", 50],
        ["-s", 1, "--selection", "avsf", "--epochs", 2, "--max-outer", 40],
        ["--method", "pegasos", "--max-outer", 50],
    ],
    ids=str,
)
def test_killed_again_and_again_it_ends_with_the_same_bits(cli, starter, store, tmp_path, flags):
    flags = ["--group", 2, "--gap", 1e-12, "-q", *flags]
    assert cli("train", store, tmp_path / "whole", *flags).status == 0
    chance, reached, command = random.Random(1), [], ["train", store, tmp_path / "m", *flags]
    command += ["--checkpoint-s", 1e-9, "--log", tmp_path / "log"]  # one after each block step
    for _ in range(12):
        kill = store / "runs", chance.randrange(30, 700), signal.SIGKILL
        assert starter.run(*command, signals=[kill]) == (-signal.SIGKILL, "")
        assert not (tmp_path / "m").exists()
        reached.append(checkpoint(store))
        command += ["--resume"] if "--resume" not in command else []
    assert reached == sorted(reached)
    assert len(set(reached)) > 6
    assert starter.run(*command)[0] == 0
    assert weights(tmp_path / "m") == weights(tmp_path / "whole")
    assert max(reached)[0] > 6
    events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line]
    # what was done again was seen again; only a certificate in vain is not tried a second time
    seen = [(e["outer"], e["certified"], e["dual"]) for e in events if e["event"] == "outer"]
    assert len(set(seen)) == len({event[:2] for event in seen})
    assert {event[0] for event in seen} == set(range(1, max(seen)[0] + 1))


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"]
)
def test_a_signal_saves_a_checkpoint(cli, starter, store, tmp_path, number, status):
    log = tmp_path / "log"
    command = ["train", store, tmp_path / "m", *SLOW, "-q", "--log", log]
    found, said = starter.run(*command, signals=[(log, 12, number)])
    assert found == status
    outer, _ = checkpoint(store)
    assert outer >= len(programs.outers(log)) > 2
    last = json.loads(log.read_text().splitlines()[-1])
    assert (last["event"], last["outer"]) == ("end", None)
    assert last["stopped"] == f"stopped in outer iteration {outer}: a checkpoint is saved"
    assert said == (
        f"blocklinear: stopped in outer iteration {outer}: a checkpoint is saved\n"
        "  fix: give the same command with --resume to go on\n"
    )
    assert not (tmp_path / "m").exists()

    limits = ["--max-outer", outer + 3, "-q"]
    command = ["train", store, tmp_path / "m", *SLOW, *limits, "--resume"]
    assert cli(*command).status == 0
    assert cli("train", store, tmp_path / "whole", *SLOW, *limits).status == 0
    assert weights(tmp_path / "m") == weights(tmp_path / "whole")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"]
)
def test_a_second_signal_does_not_wait(starter, store, tmp_path, number, status):
    """Also when the first is not heeded yet: the second comes before anything is saved."""
    log, saving = tmp_path / "log", store / "runs" / "default" / ".tmp-"
    command = ["train", store, tmp_path / "m", *SLOW, "-q", "--log", log]
    found, said = starter.run(*command, signals=[(log, 12, number), (saving, 0, number)])
    assert found == status
    assert said == f"blocklinear: {'interrupted' if number == signal.SIGINT else 'terminated'}\n"
    assert checkpoint(store) == (0, 0)
    assert not (tmp_path / "m").exists()


def test_resuming_with_other_options(cli, refused, store, tmp_path):
    flags = ["--group", 2, "--gap", 1e-12, "--max-outer", 2, "-q"]
    assert cli("train", store, tmp_path / "m", *flags).status == 0
    before = (tmp_path / "m").read_bytes()
    said = refused(5, "train", store, tmp_path / "m", *flags, "--resume", "-c", 2, "--seed", 7)
    assert "cost was 1.0 and is 2.0; seed was 0 and is 7" in said
    assert "--restart to delete what it reached, or another --run NAME" in said
    assert (tmp_path / "m").read_bytes() == before


def test_resuming_on_another_store(cli, refused, noisy, store, tmp_path):
    assert cli("train", store, tmp_path / "m", "--max-outer", 2, "-q").status == 0
    (store / "runs").rename(tmp_path / "runs")
    flags = ["--blocks", 8, "--seed", 3, "-q", "--force"]
    assert cli("split", noisy, store, *flags).status == 0
    (tmp_path / "runs").rename(store / "runs")
    said = refused(5, "train", store, tmp_path / "m", "--max-outer", 2, "-q", "--resume")
    assert "the blocks of the store have changed" in said


def test_nothing_to_resume(cli, store, tmp_path):
    done = cli("train", store, tmp_path / "m", "-q", "--resume")
    assert done.status == 0
    assert done.err == "warning: run 'default' has no checkpoint: it starts from the beginning\n"


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_damaged_checkpoints(cli, refused, store, tmp_path, damage):
    flags = ["--group", 2, "--gap", 1e-12, "-q", "--seed", 2]
    assert cli("train", store, tmp_path / "whole", *flags, "--max-outer", 5).status == 0
    assert cli("train", store, tmp_path / "m", *flags, "--max-outer", 2).status == 0
    before, folder = (tmp_path / "m").read_bytes(), store / "runs" / "default"
    resume = ["train", store, tmp_path / "m", *flags, "--max-outer", 5, "--resume"]
    generation = json.loads((folder / "checkpoint.json").read_bytes())["checkpoint"]["generation"]
    arrays = sorted(folder.glob(f"*.{generation}"))
    paths = [folder / "checkpoint.json", *arrays]
    assert [path.stem for path in paths] == ["checkpoint", "alpha-0", "ranges-0", "w-0"]
    for path in paths if damage != "gone" else paths[1:]:
        intact = path.read_bytes()
        data = bytearray(intact)
        data[len(data) // 3] ^= 4
        path.unlink()
        if damage != "gone":
            path.write_bytes(data if damage == "flip" else intact[:-1])
        said = refused(4, *resume)
        assert path.name in said
        assert "train with --restart, which starts the run anew" in said
        assert (tmp_path / "m").read_bytes() == before
        path.write_bytes(intact)
    assert cli(*resume).status == 0
    assert weights(tmp_path / "m") == weights(tmp_path / "whole")


def test_files_may_grow_no_further(cli, starter, noisy, tmp_path):
    """A file size limit stands in for a full disk: alpha fits, the checkpoint does not."""
    store, flags = tmp_path / "many", ["--gap", 1e-12, "--group", 8, "-q", "--max-outer"]
    assert cli("split", noisy, store, "--blocks", 40, "-q").status == 0
    assert cli("train", store, tmp_path / "whole", *flags, 6).status == 0
    assert cli("train", store, tmp_path / "first", *flags, 3).status == 0
    resume = ["train", store, tmp_path / "m", *flags, 6, "--resume"]
    length = (store / "runs" / "default" / "checkpoint.json").stat().st_size
    assert length > 1601 > 8 * 200

    status, said = starter.run(*resume, file_bytes=1601)
    assert status == 6
    assert "checkpoint.json: write failed: File too large" in said
    assert "Traceback" not in said
    assert not (tmp_path / "m").exists()
    assert cli(*resume).status == 0  # the checkpoint before is whole
    assert weights(tmp_path / "m") == weights(tmp_path / "whole")
