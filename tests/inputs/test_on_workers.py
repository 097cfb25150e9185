"""S3 as the workers of a cluster read it: the bytes of files, whatever cuts connections."""

import importlib.util
import json
import subprocess
import sys

import pytest
from cluster.conftest import cluster_of
from cluster.serial import SerialClient
from programs import GUARD_S

import blocklinear
from blocklinear.cluster import split
from blocklinear.errors import StorageError

from .packed import blocks_of

URL = "s3://data/rows.svm"
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="it belongs to an extra"
)


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch):
    monkeypatch.setattr(split, "RANGE_BYTES", 100_000)


@pytest.fixture
def local(path, tmp_path):
    """The store of one machine, of a file."""
    return blocklinear.split(path, tmp_path / "local", blocks=4, memory="400M")


@pytest.fixture
def environment(s3, monkeypatch):
    """How other processes find the server, through the proxy."""
    once = {"endpoint_url": s3.proxy.url, "config_kwargs": {"retries": {"max_attempts": 0}}}
    monkeypatch.setenv("FSSPEC_S3", json.dumps(once))


def command(*arguments):
    code = "from blocklinear.__main__ import program; program()"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments), "--memory", "400M", "-q"],
        capture_output=True, text=True, timeout=GUARD_S, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done


def test_a_split_on_processes_of_this_machine(rows, s3, environment, local, tmp_path):
    s3.pipe_file("data/rows.svm", rows)
    s3.proxy.cut(times=3, after_bytes=200_000)
    store = tmp_path / "store"
    done = command("split", URL, store, "--blocks", 4, "--dask", "local:2")
    assert done.returncode == 0, done.stderr
    assert s3.proxy.made == 3
    assert blocks_of(blocklinear.BlockStore.open(store)) == blocks_of(local)


@pytest.mark.parametrize("after", [0, 20_000])
def test_training_on_processes_of_this_machine(
    s3, environment, local, tmp_path, monkeypatch, after
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    s3.put(str(local.folder), "data/store", recursive=True)
    s3.proxy.cut(times=2, after_bytes=after)
    model = tmp_path / "model"
    done = command("train", "s3://data/store", model, "--dask", "local:2", "--max-outer", 3)
    assert done.returncode == 0, done.stderr
    assert s3.proxy.made == 2
    client = SerialClient(2, tmp_path, monkeypatch)
    expected = blocklinear.train(local, client=client, memory="400M", max_outer=3)
    assert blocklinear.LinearModel.load(model).weights.tobytes() == expected.weights.tobytes()


@pytest.mark.parametrize("after", [0, 2_000, 40_000, 250_000])
def test_connections_that_are_cut_are_taken_up_again(
    rows, s3, small_parts, local, tmp_path, monkeypatch, after
):
    s3.pipe_file("data/rows.svm", rows)
    s3.proxy.cut(times=3, after_bytes=after)
    client = SerialClient(2, tmp_path, monkeypatch)
    store = blocklinear.split(URL, tmp_path / "store", blocks=4, memory="400M", client=client)
    assert blocks_of(store) == blocks_of(local)


def test_connections_that_are_cut_for_ever_end_in_an_error(rows, s3, small_parts, tmp_path):
    """Some ranges have been read by then."""
    s3.pipe_file("data/rows.svm", rows)
    tmp_path = tmp_path / "folder"
    tmp_path.mkdir()
    with cluster_of(2) as client:

        def cut(event):
            s3.proxy.cut(times=100_000, after_bytes=40_000)

        with pytest.raises(StorageError) as caught:
            blocklinear.split(
                URL, tmp_path / "store", blocks=4, memory="400M", client=client, listener=cut
            )
    text = str(caught.value)
    assert f"{URL}: reading failed at byte" in text
    assert "4 times" in text
    assert "fix: check the network" in text
    assert not list(tmp_path.iterdir())
