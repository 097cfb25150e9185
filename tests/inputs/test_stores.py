"""Stores on URLs: read through a folder of the cache, with the bits of those of this machine."""

import errno
import json
import shutil
import threading

import programs
import pytest
import servers
from store.test_manifest import inner, seal

import blocklinear
from blocklinear.cli.main import main
from blocklinear.errors import (
    DamagedError,
    MemoryBudgetError,
    StoppedError,
    StorageError,
    UsageError,
)
from blocklinear.inputs import ahead
from blocklinear.options import TrainOptions
from blocklinear.store import blocks, files, groups
from blocklinear.store.features import read_features, write_features
from blocklinear.store.remote import mirror
from blocklinear.training.memory_plan import plan_memory

from .packed import blocks_of

URL = "memory://store"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The folder of the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "blocklinear" / "stores"


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A store of this machine, of ten blocks whose features are renumbered."""
    folder = tmp_path_factory.mktemp("local")
    lines = (
        f"{1 if i % 3 else -1} {1 + i % 97}:{1 + i % 3 / 2} {100 + i % 211}:0.5\n"
        for i in range(2_000)
    )
    (folder / "rows.svm").write_text("".join(lines))
    return blocklinear.split(folder / "rows.svm", folder / "store", blocks=10)


@pytest.fixture
def remote(local, memory):
    """The files of that store on `URL`."""
    for path in local.folder.rglob("*"):
        if path.is_file():
            memory.pipe_file(f"/store/{path.relative_to(local.folder)}", path.read_bytes())
    return memory


@pytest.fixture
def requests(monkeypatch, memory):
    """The files that were asked for."""
    asked, of_memory = [], type(memory).cat_file

    def noted(self, path, *given, **more):
        asked.append(path.rpartition("/")[2])
        return of_memory(self, path, *given, **more)

    monkeypatch.setattr(type(memory), "cat_file", noted)
    return asked


def weights(model):
    return model.weights.tobytes(), model.metadata["certificate"]


def test_training_gives_the_same_bits(local, remote, requests):
    store = blocklinear.BlockStore.open(URL)
    assert repr(store) == repr(local).replace(str(local.folder), URL)
    assert weights(blocklinear.train(store)) == weights(blocklinear.train(local))
    assert requests.count("manifest.json") == 1
    assert blocks_of(store) == blocks_of(local)
    requests.clear()
    assert weights(blocklinear.train(URL, restart=True)) == weights(blocklinear.train(local))
    assert requests == ["manifest.json"]


def test_training_from_s3_gives_the_same_bits(local, s3, small_parts):
    s3.put(str(local.folder), "data/store", recursive=True)
    s3.proxy.cut(times=2, after_bytes=2_000)
    assert weights(blocklinear.train("s3://data/store")) == weights(blocklinear.train(local))
    assert s3.proxy.made == 2


def test_other_solvers_and_reading(local, remote):
    store = blocklinear.BlockStore.open(URL)
    primal = {"solver": 6, "gap": 0.1}
    assert weights(blocklinear.train(store, **primal)) == weights(
        blocklinear.train(local, **primal)
    )
    assert blocklinear.cross_validate(URL, folds=2, max_outer=1)
    assert sum(X.nnz for X, _, _ in store.iter_csr()) == local.manifest.nnz
    assert blocklinear.transpose(URL).manifest.total_bytes


def test_commands(local, remote, tmp_path, capsys):
    folder = str(tmp_path / "kept")
    assert main(["info", URL, "--cache", folder, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["url"] == URL
    assert facts["folder"].startswith(folder)
    assert main(["verify", URL, "--cache", folder, "-q"]) == 0
    assert "10 blocks, 2000 rows, 4000 entries: all intact" in capsys.readouterr().out
    assert main(["info", URL, "--cache", folder]) == 0
    assert f"on {URL}; 10 of its blocks are kept in {folder}" in capsys.readouterr().out
    model = tmp_path / "model"
    assert main(["train", URL, str(model), "--cache", folder, "--cache-size", "1K", "-q"]) == 0
    assert model.exists()
    other = tmp_path / "other"
    assert main(["transpose", URL, "--cache", str(other), "-q"]) == 0
    assert list(other.glob("*/columns/*"))


def test_the_cache_may_be_bounded(local, remote, cache, requests, monkeypatch):
    monkeypatch.setattr(mirror, "_IN_USE", 2)
    size = max(block.bytes for block in local.manifest.blocks)
    store = blocklinear.BlockStore.open(URL, cache_bytes=5 * size)
    assert weights(blocklinear.train(store, group=1)) == weights(blocklinear.train(local, group=1))
    kept = list(store.blocks_folder.iterdir())
    assert sum(path.stat().st_size for path in kept) <= 5 * size
    first = [name for name in requests if name.endswith(".blk")][:2]
    assert set(first) <= {path.name for path in kept}
    requests.clear()
    assert not store.verify().faults
    assert 5 <= len(requests) <= 10


def test_a_block_that_another_thread_makes_room_of_is_fetched_again(local, remote, monkeypatch):
    """It is deleted between fetching and opening."""
    really, left = blocks.fetched, [2]

    def fetched(path, *rest):
        really(path, *rest)
        if path.name == "b00000003.blk" and left[0]:
            left[0] -= 1
            path.unlink()

    monkeypatch.setattr(blocks, "fetched", fetched)
    assert not blocklinear.BlockStore.open(URL).verify().faults
    assert left == [0]


def test_text_is_no_store(tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:1\n-1 2:1\n")
    with pytest.raises(DamagedError, match=r"not a store: it has no manifest\.json") as caught:
        blocklinear.train(f"file://{tmp_path}/rows.svm")
    assert "text on a URL is split first" in caught.value.fix


@pytest.mark.parametrize("name", ["blocks/b00000003.blk", "features/f00000000.map"])
def test_a_damaged_file_is_refused_and_not_kept(name, local, remote, cache):
    whole = remote.cat_file(f"/store/{name}")
    for k in (1, len(whole) // 2, len(whole) - 1):
        remote.pipe_file(f"/store/{name}", whole[:k] + bytes([whole[k] ^ 1]) + whole[k + 1 :])
        with pytest.raises(DamagedError) as caught:
            blocklinear.train(URL, restart=True)
        assert caught.value.fix == "restore the store that it comes from"
        assert not list(cache.rglob(name.rpartition("/")[2]))
    remote.pipe_file(f"/store/{name}", whole)
    assert weights(blocklinear.train(URL, restart=True)) == weights(blocklinear.train(local))


@pytest.mark.parametrize("name", ["blocks/b00000003.blk", "features/f00000000.map"])
def test_a_kept_file_that_is_damaged_is_fetched_again_once_it_is_deleted(name, local, remote):
    store = blocklinear.BlockStore.open(URL)
    blocklinear.train(store)
    path = store.folder / name
    for content in (b"", path.read_bytes()[:-1] + b"?"):
        path.write_bytes(content)
        with pytest.raises(DamagedError, match=name) as caught:
            blocklinear.train(store, restart=True)
        assert caught.value.fix == "delete the file: it is fetched again"
    path.unlink()
    assert weights(blocklinear.train(store, restart=True)) == weights(blocklinear.train(local))


def test_a_map_that_is_wrong_on_the_url_is_not_to_be_fetched_again(local, memory, tmp_path):
    """Where every checksum is right."""
    folder = tmp_path / "wrong"
    shutil.copytree(local.folder, folder, ignore=shutil.ignore_patterns("runs"))
    indices = read_features(folder, local.manifest)
    indices[-1] = indices[0]
    content = inner(folder)
    content["features"] = [vars(write_features(folder, 0, indices, None))]
    seal(folder, content)
    for path in folder.rglob("*"):
        if path.is_file():
            memory.pipe_file(f"/store/{path.relative_to(folder)}", path.read_bytes())
    with pytest.raises(DamagedError, match="a feature has two numbers") as caught:
        blocklinear.train(URL)
    assert caught.value.fix.startswith("restore the folder")


def test_a_server_that_cannot_be_reached_is_no_damage(local, remote, capsys, monkeypatch):
    store, of_memory, asked = blocklinear.BlockStore.open(URL), type(remote).cat_file, []

    def cut(self, path, *given, **more):
        if path.endswith(".blk"):
            asked.append(path)
            raise ConnectionResetError("cut")
        return of_memory(self, path, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(type(remote), "cat_file", cut)
        assert main(["verify", URL, "-q"]) == 6
    assert "b00000000.blk: reading failed at byte 0, 4 times: cut" in capsys.readouterr().err
    assert len(set(asked)) == 1
    remote.rm_file("/store/blocks/b00000003.blk")
    (fault,) = store.verify().faults
    assert "b00000003.blk: there is no such file" in fault


@pytest.mark.parametrize("name", ["manifest.json", "b00000003.blk"])
def test_a_full_disk_of_the_cache(name, remote, capsys, monkeypatch):
    rename = files.os.rename

    def full(old, new):
        if str(new).endswith(name):
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(old, new)

    monkeypatch.setattr(files.os, "rename", full)
    assert main(["verify", URL]) == 6
    err = capsys.readouterr().err
    assert f"{name}: write failed: No space left on device (" in err
    assert "another disk with --cache, or limit what is kept with --cache-size" in err


def test_a_cache_that_cannot_be_made(remote, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["info", URL, "--cache", str(tmp_path / "file")]) == 6
    assert "create failed: Not a directory\n" in (err := capsys.readouterr().err)
    assert err.endswith("and its permissions; --cache names another folder\n")


def test_a_missing_block(remote):
    remote.rm_file("/store/blocks/b00000003.blk")
    with pytest.raises(StorageError, match=f"{URL}/blocks/b00000003.blk: there is no such file"):
        blocklinear.train(URL)


def test_a_manifest_that_is_missing_or_damaged(remote):
    remote.pipe_file("/store/manifest.json", b"{}")
    with pytest.raises(DamagedError, match=f"{URL}/manifest.json: damaged"):
        blocklinear.BlockStore.open(URL)
    remote.rm_file("/store/manifest.json")
    with pytest.raises(DamagedError, match=f"{URL}: not a store: it has no manifest.json"):
        blocklinear.BlockStore.open(URL)


def test_a_server_that_sends_no_parts_of_blocks(local, monkeypatch):
    for name in ("_MOST_PART_BYTES", "_LEAST_PART_BYTES"):
        monkeypatch.setattr(ahead, name, 256)
    paths = [path for path in local.folder.rglob("*") if path.is_file()]
    files = {f"/{path.relative_to(local.folder)}": path.read_bytes() for path in paths}
    with (
        servers.http_files(files, sends_parts=False) as server,
        pytest.raises(StorageError, match="the server does not send parts of files") as caught,
    ):
        blocklinear.train(server.url)
    assert "a store as a whole folder" in caught.value.fix


@pytest.mark.parametrize("run", [blocklinear.train, blocklinear.cross_validate])
def test_a_store_that_cannot_be_written_to_is_trained_on_by_its_url(local, monkeypatch, run):
    real = files.open_regular

    def refusing(path, *flags):
        if path == local.folder / "lock":
            raise OSError(errno.EROFS, "Read-only file system")
        return real(path, *flags)

    monkeypatch.setattr(files, "open_regular", refusing)
    with pytest.raises(
        StorageError, match="Read-only file system\n  fix: name it file:///"
    ) as said:
        run(local)
    assert run(said.value.fix.split()[2].rstrip(":"))


def test_a_url_where_nothing_is(remote):
    with pytest.raises(StorageError, match=f"{URL}/nothing: there is no such file"):
        blocklinear.BlockStore.open(f"{URL}/nothing")


def test_another_store_under_the_same_url(local, remote, tmp_path, requests):
    blocklinear.train(URL)
    lines = "".join(f"{1 if i % 2 else -1} {1 + i % 2}:1 {3 + i % 5}:1\n" for i in range(500))
    (tmp_path / "others.svm").write_text(lines)
    other = blocklinear.split(tmp_path / "others.svm", tmp_path / "other", blocks=10)
    for path in other.folder.rglob("*.*"):
        remote.pipe_file(f"/store/{path.relative_to(other.folder)}", path.read_bytes())
    found = blocklinear.train(URL, restart=True)
    assert weights(found) == weights(blocklinear.train(other))


def test_a_store_that_grew_keeps_what_is_here(local, remote, tmp_path, requests):
    (tmp_path / "more.svm").write_text("1 1:1\n-1 2:1\n")
    blocklinear.train(URL)
    grown = blocklinear.split(tmp_path / "more.svm", tmp_path / "grown", blocks=1)
    shutil.rmtree(grown.folder)
    shutil.copytree(local.folder, grown.folder)
    blocklinear.add(grown.folder, tmp_path / "more.svm")
    for path in grown.folder.rglob("*.*"):
        remote.pipe_file(f"/store/{path.relative_to(grown.folder)}", path.read_bytes())
    requests.clear()
    found = blocklinear.train(URL, restart=True)
    assert found.metadata["certificate"]["gap"] <= 1e-3
    assert set(requests) == {"manifest.json", "b00000010.blk"}


def test_a_store_on_a_url_is_not_changed(remote, path):
    for change in (
        lambda: blocklinear.add(URL, path),
        lambda: blocklinear.remove(URL, "b1"),
        lambda: blocklinear.compact(URL),
        lambda: blocklinear.collect_garbage(URL),
        lambda: blocklinear.add(blocklinear.BlockStore.open(URL).folder, path),
    ):
        with pytest.raises(UsageError, match=f"{URL}: a store on a URL cannot be changed"):
            change()


def test_no_password_is_kept_on_disk(cache):
    with pytest.raises(UsageError, match="must not hold a password") as caught:
        blocklinear.BlockStore.open("https://me:secret@127.0.0.1/store")
    assert "secret" not in str(caught.value)
    assert not cache.exists()


def test_a_store_of_somebody_else_asks_for_no_url(local, remote, requests, tmp_path):
    given = tmp_path / "given"
    shutil.copytree(blocklinear.BlockStore.open(URL).folder, given)
    requests.clear()
    store = blocklinear.BlockStore.open(given)
    assert store.mirror is None
    assert len(store.verify().faults) == 11
    assert not requests


@pytest.fixture
def silent(remote, monkeypatch):
    """A server that sends no block from the third on while it is set; what it was asked for."""
    of_memory, ended, asked, late = type(remote).cat_file, threading.Event(), [], []

    def without_answer(self, path, *given, **more):
        if path.endswith(".blk"):
            asked.append(path)
            if len(asked) > 2:
                late.append(not ended.wait(programs.GUARD_S))
        return of_memory(self, path, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(type(remote), "cat_file", without_answer)
        yield asked
    assert not any(late)  # nobody has waited for the answer
    ended.set()


def halves(cache):
    """What is left of files that were not fetched to their end."""
    return [path for path in cache.rglob("*") if path.name.startswith(".tmp")]


def test_a_run_is_stopped_while_a_server_is_silent(local, silent, cache):
    with pytest.raises(StoppedError, match="a checkpoint is saved"):
        blocklinear.train(URL, group=1, halt=lambda: len(silent) > 2)
    assert not halves(cache)


def test_workers_are_stopped_while_a_server_is_silent(silent, cache):
    pytest.importorskip("distributed")
    from cluster.conftest import cluster_of

    with pytest.raises(StoppedError), cluster_of(1) as client:  # whose end waits for its tasks
        blocklinear.train(URL, group=1, client=client, halt=lambda: len(silent) > 2)
    assert not halves(cache)


def interrupting(asked):
    if len(asked) > 2:
        raise KeyboardInterrupt


@pytest.mark.parametrize("solver", [3, 6])
def test_an_interrupt_while_a_server_is_silent(silent, cache, solver):
    with pytest.raises(KeyboardInterrupt):
        blocklinear.train(URL, solver=solver, group=1, halt=lambda: interrupting(silent))
    assert not halves(cache)


def test_an_interrupt_while_blocks_are_read_from_a_silent_server(silent, cache, monkeypatch):
    real = groups.wait

    def wait(jobs):
        while real(jobs, timeout=1e-09).not_done:
            interrupting(silent)

    monkeypatch.setattr(groups, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        list(blocklinear.BlockStore.open(URL).iter_csr())
    assert not halves(cache)


def test_a_damaged_note(remote):
    folder = blocklinear.BlockStore.open(URL).folder
    (folder / mirror.NOTE).write_text("{")
    with pytest.raises(DamagedError, match="delete the folder"):
        blocklinear.BlockStore.open(URL)


def test_memory_for_fetching_is_that_of_decoded_blocks_if_there_are_any(local):
    manifest, taken = local.manifest, mirror.FETCHING_BYTES
    ample = TrainOptions(memory_bytes=1 << 30)
    plan, with_url = (plan_memory(manifest, ample, url_bytes=n) for n in (0, taken))
    assert with_url.pin_bytes == plan.pin_bytes - taken
    assert with_url.group == plan.group
    tight = TrainOptions(memory_bytes=(98 << 20) + taken)
    plan = plan_memory(manifest, TrainOptions(memory_bytes=98 << 20))
    found = plan_memory(manifest, tight, url_bytes=taken)
    assert found.pin_bytes in (plan.pin_bytes, plan.pin_bytes + (98 << 20))
    with pytest.raises(MemoryBudgetError, match="the program takes 168M"):
        plan_memory(manifest, TrainOptions(memory_bytes=98 << 20), url_bytes=taken)
