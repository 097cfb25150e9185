"""`transpose`: what it prints, and what other commands say of columns."""

import json
import re
import signal

import pytest

from blocklinear.columns.store import ColumnStore, open_columns
from blocklinear.store.store import BlockStore


def columns_of(store):
    return open_columns(BlockStore.open(store))


def test_columns_are_made_kept_renewed_and_deleted(cli, store):
    made = r"columns: 1 file, [0-9]+B on disk \([0-9.]+ bytes an entry\)\n"
    done = cli("transpose", store, "--memory", "512M", "--threads", 1)
    assert (done.status, done.err) == (0, "")
    assert re.fullmatch(made, done.out)
    manifest = store / "columns" / "columns.json"
    first = manifest.stat().st_ino
    again = cli("transpose", store, "-q")
    assert (again.status, again.out) == (0, done.out)
    assert manifest.stat().st_ino == first
    assert cli("transpose", store, "--force").out == done.out
    assert manifest.stat().st_ino != first
    size = sum(path.stat().st_size for path in (store / "columns").iterdir())
    gone = cli("transpose", store, "--drop")
    assert (gone.status, gone.out) == (0, f"{size} bytes deleted\n")
    assert columns_of(store) is None
    assert cli("transpose", store, "--drop").out == "0 bytes deleted\n"


def test_info_and_verify_know_columns(cli, store):
    plain = cli("info", store).out
    assert json.loads(cli("info", store, "--json").out)["columns"] is None
    assert json.loads(cli("verify", store, "--json").out)["columns"] is None
    made = cli("transpose", store).out
    assert cli("info", store).out == plain + made
    size = columns_of(store).bytes
    assert json.loads(cli("info", store, "--json").out)["columns"] == {"files": 1, "bytes": size}
    done = cli("verify", store)
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith("all intact\n1 file of columns: all intact\n")
    assert json.loads(cli("verify", store, "--json").out)["columns"] == {"files": 1, "faults": []}


def test_damaged_columns_are_reported_with_what_renews_them(cli, store):
    cli("transpose", store)
    path = store / "columns" / "c00000000.blk"
    data = bytearray(path.read_bytes())
    data[50] ^= 1
    path.write_bytes(data)
    done = cli("verify", store)
    assert done.status == 4
    assert "all intact\n1 file of columns: 1 damaged\n" in done.out
    assert f"{path}: damaged: " in done.err
    assert "blocklinear transpose --force STORE" in done.err
    assert cli("transpose", store, "--force").status == 0
    assert cli("verify", store).status == 0
    (store / "columns" / "columns.json").write_text("{")
    assert "columns: damaged" in cli("info", store).out
    assert cli("verify", store).status == 4
    assert cli("transpose", store).status == 0
    assert cli("verify", store).status == 0


def test_columns_that_are_deleted_while_they_are_verified_are_no_damage(cli, store, monkeypatch):
    cli("transpose", store)
    real = ColumnStore.verify

    def verify(columns, listener):
        assert cli("transpose", store, "--drop").status == 0
        return real(columns, listener)

    monkeypatch.setattr(ColumnStore, "verify", verify)
    done = cli("verify", store)
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith("all intact\n")
    assert "columns" not in done.out


def test_what_cannot_be_transposed_is_refused(cli, refused, store, tmp_path):
    assert "not a store" in refused(4, "transpose", tmp_path)
    assert "give --memory" in refused(7, "transpose", store, "--memory", "1M")
    assert cli("transpose", store, "--force", "--drop").status == 2
    refused(2, "transpose", store, "--threads", 0)


def test_columns_that_are_half_deleted_are_none(cli, starter, store):
    columns, status = store / "columns", -signal.SIGKILL
    step = 0
    while status == -signal.SIGKILL:
        cli("transpose", store)
        kill = columns, step, signal.SIGKILL
        status, err = starter.run("transpose", store, "--drop", signals=[kill])
        assert cli("verify", store).status == 0, step
        step += 1
    assert (status, err) == (0, "")
    assert not columns.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_leaves_nothing_that_is_taken_for_columns(cli, starter, store, number):
    cli("transpose", store)
    before = (store / "columns" / "columns.json").read_bytes()
    for step in (0, 3, 6):
        kill = store / "columns.new", step, number
        status, err = starter.run("transpose", store, "--force", signals=[kill])
        assert "Traceback" not in err
        assert status in (128 + number, -number, 0)
        assert (store / "columns" / "columns.json").read_bytes() == before
        assert columns_of(store).verify() == []
        if number != signal.SIGKILL:
            assert not (store / "columns.new").exists()
    assert cli("transpose", store, "--force").status == 0
    assert not (store / "columns.new").exists()
