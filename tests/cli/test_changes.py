import json
import shutil

import programs
import pytest

from blocklinear.store.files import Lock

MORE = "1 1:0.5 9:1\n3 2:1\n"


@pytest.fixture
def more(tmp_path):
    path = tmp_path / "more.svm"
    path.write_text(MORE)
    return path


def info(cli, store):
    return json.loads(cli("info", store, "--json").out)


def test_add(cli, store, more):
    done = cli("add", store, more, "-q")
    assert (done.status, done.err) == (0, "warning: labels that the store did not have: 3\n")
    assert done.out == "batch b2: 2 rows, 3 entries in 1 block; the store has 62 rows\n"
    facts = info(cli, store)
    assert (facts["rows"], facts["features"], facts["blocks"]) == (62, 9, 5)
    assert [batch["name"] for batch in facts["batches"]] == ["b1", "b2"]
    assert facts["batches"][1]["labels"] == [{"label": 1.0, "rows": 1}, {"label": 3.0, "rows": 1}]
    assert facts["batches"][1]["sources"][0]["path"] == str(more)
    assert cli("verify", store).status == 0


def test_add_twice(cli, refused, store, more):
    options = ["-q", "--batch", "monday", "--threads", 1, "--memory", "256M"]
    assert cli("add", store, more, *options).status == 0
    error = refused(5, "add", store, more, *options)
    assert "batch monday of 2026-01-01T00:00:00Z" in error
    assert "--allow-duplicate" in error
    done = cli("add", store, more, "-q", "--allow-duplicate", "--blocks", 2)
    assert done.out.startswith("batch b2: 2 rows, 3 entries in 2 blocks")


def test_add_from_stdin(store, more):
    with open(more) as stdin:
        done = programs.blocklinear("add", store, "-", stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert "batch b2: 2 rows" in done.stdout


def test_add_of_malformed_text(cli, refused, store, tmp_path):
    path = tmp_path / "bad.svm"
    path.write_text("1 1:1\nx\n")
    before = info(cli, store)
    assert refused(3, "add", store, path, "-q").startswith(f"blocklinear: {path}:2:1: ")
    assert info(cli, store) == before
    done = cli("add", store, path, "-q", "--on-error", "skip")
    assert done.status == 0
    assert "skipped-b2.txt" in done.err


def test_add_of_another_index_base(refused, store, tmp_path):
    path = tmp_path / "zero.svm"
    path.write_text("1 0:1\n")
    assert "--index-base 0" in refused(3, "add", store, path, "-q")
    assert "index base of the store is 1" in refused(5, "add", store, path, "--index-base", 0)


def test_remove(cli, refused, store, more):
    assert cli("add", store, more, "-q").status == 0
    done = cli("remove", store, "--batch", "b1")
    assert done.status == 0
    assert done.out.startswith("the store has 2 rows in 1 block; `blocklinear gc` frees ")
    assert (info(cli, store)["rows"], info(cli, store)["removed_blocks"]) == (2, 4)
    assert "4 removed blocks are still on disk" in cli("info", store).out
    assert "there are b2" in refused(2, "remove", store, "--batch", "b1")
    assert "--list" in refused(2, "remove", store, "--block", 0)
    assert "used with --list" in refused(2, "remove", store, "--batch", "b2", "--json")
    refused(3, "remove", store, "--batch", "b2")
    refused(2, "remove", store)
    done = cli("gc", store)
    assert done.status == 0
    assert done.out.startswith("4 files, ")
    assert info(cli, store)["removed_blocks"] == 0


def test_quiet_leaves_warnings_and_the_result(cli, store, more, tmp_path):
    more.write_text("3 2:1\n")
    stores = [store, tmp_path / "other"]
    shutil.copytree(*stores)
    commands = [("add", more, "-q"), ("remove", "--batch", "b1"), ("gc",)]
    for command, *arguments in commands:
        plain, quiet = (
            cli(command, name, *arguments, *flags)
            for name, flags in zip(stores, ([], ["--quiet"]), strict=True)
        )
        assert (quiet.status, quiet.err) == (0, plain.err)
        assert quiet.out == plain.out != ""
        if command == "remove":
            assert quiet.err == "warning: all rows that are left have the one label 3\n"


def test_remove_blocks(cli, store):
    assert cli("remove", store, "--block", 0, 2, "--block", 3).status == 0
    assert info(cli, store)["batches"][0]["blocks"] == [1]


def test_batches_are_listed(cli, store, more):
    assert cli("add", store, more, "-q").status == 0
    assert cli("remove", store, "--block", 1).status == 0
    done = cli("remove", store, "--list")
    first, second = done.out.splitlines()
    assert first.startswith("b1  2026-01-01T00:00:00Z  ")
    assert first.endswith("blocks 0, 2-3")
    assert "  2 rows  " in second
    assert second.endswith("  labels 1 (1 row), 3 (1 row)  blocks 4")
    lines = cli("remove", store, "--list", "--json").out.splitlines()
    assert [json.loads(line) for line in lines] == info(cli, store)["batches"]


def test_compact(cli, refused, store, more):
    assert cli("add", store, more, "-q").status == 0
    assert cli("compact", store).out == "5 blocks became 2\n"
    merged = cli("compact", store, "--merge-batches", "all", "b1", "b2").out
    assert merged == "2 batches became all\n2 blocks became 1\n"
    assert cli("compact", store, "--merge-batches", "one", "all").out == "1 batch became one\n"
    assert cli("compact", store, "--merge-batches", "all", "one").out == "1 batch became all\n"
    unchanged = "no blocks to merge: the store has 1 block, as before\n"
    assert cli("compact", store, "--block-size", "1K").out == unchanged
    assert [batch["name"] for batch in info(cli, store)["batches"]] == ["all"]
    assert cli("verify", store).status == 0
    refused(2, "compact", store, "--merge-batches", "all")
    refused(2, "compact", store, "--merge-batches", "new", "old")
    assert cli("gc", store).out.startswith("6 files, ")


@pytest.mark.parametrize("command", ["add", "remove", "gc", "compact"])
def test_a_second_writer(refused, store, more, command):
    arguments = {"add": [more], "remove": ["--batch", "b1"]}.get(command, [])
    with Lock(store / "lock"):
        (store / "lock").write_text("pid 1 on another machine")
        error = refused(8, command, store, *arguments)
    assert f"{store}: another process is writing to it (pid 1 on another machine)" in error
    assert "fix: wait until it ends" in error


def test_nobody_changes_a_store_that_is_trained_on(refused, store):
    """Training holds the lock, so that its blocks stay until it ends."""
    from blocklinear import BlockStore, TrainOptions, train

    statuses = []

    def listen(event):
        if not statuses:
            statuses.append(8)
            refused(8, "remove", store, "--block", 0)
            refused(8, "gc", store)

    train(BlockStore.open(store), TrainOptions(memory_bytes=1 << 30, group=1), listen)
    assert statuses == [8]


@pytest.mark.parametrize("command", ["add", "remove", "gc", "compact"])
def test_what_is_no_store(refused, tmp_path, more, command):
    arguments = {"add": [more], "remove": ["--batch", "b1"]}.get(command, [])
    assert "not a store" in refused(4, command, tmp_path, *arguments)
    assert "not a store" in refused(4, command, more, *arguments)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["more.svm"]


def test_a_warm_start_says_how_w_was_made(cli, store, more, tmp_path):
    model, options = tmp_path / "model", ["--group", 1, "--gap", "1e-4", "--memory", "256M"]
    assert cli("train", store, model, *options, "-q").status == 0
    assert cli("add", store, more, "-q", "--batch", "late").status == 0
    assert cli("remove", store, "--batch", "late").status == 0
    done = cli("train", store, model, *options, "--warm-start")
    assert done.status == 0
    assert "warm start: alpha of 60 rows kept, 0 rows new, 0 gone; w as it was" in done.err
    assert cli("remove", store, "--block", 0).status == 0
    done = cli("train", store, model, *options, "--warm-start")
    assert done.status == 0
    assert "gone; w by Eq. (16) over 1 changed block\n" in done.err
    assert cli("remove", store, "--block", 1).status == 0
    assert cli("gc", store).status == 0
    done = cli("train", store, model, *options, "--warm-start")
    assert done.status == 0
    assert "gone; w recomputed in one pass over 2 blocks" in done.err


def test_a_store_beside_text_keeps_the_rows_added_to_it(cli, refused, rows, more, tmp_path):
    text_store = rows.with_name(f"{rows.name}.blocks")
    train = ["train", rows, tmp_path / "model", "-q"]
    assert cli(*train).status == 0
    assert cli("add", text_store, more, "-q").status == 0
    error = refused(5, *train)
    assert f"{text_store}: its rows are not those of {rows.name}" in error
    assert f"name {text_store.name} to train on what it holds; or remove it" in error
    assert info(cli, text_store)["rows"] == 62
    assert cli("train", text_store, tmp_path / "model", "-q").status == 0


def test_what_may_be_given_again(cli, refused, store, more):
    add = ["add", store, more, "-q", "--batch", "monday", "--if-absent"]
    assert cli(*add).out.startswith("batch monday: 2 rows, ")
    done = cli(*add)
    assert (done.status, done.err) == (0, "")
    assert done.out == "batch monday is in the store already, which has 62 rows\n"
    assert cli("add", store, more, "-q", "--if-absent").out == done.out
    more.write_text(MORE + "1 1:1\n")
    assert "batch monday is not of this input" in refused(5, *add)
    assert info(cli, store)["rows"] == 62
    remove = ["remove", store, "--batch", "sunday", "monday", "--missing-ok"]
    assert cli(*remove).out.startswith("the store has 60 rows in 4 blocks; ")
    done = cli(*remove, "--block", 77)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("the store has 60 rows in 4 blocks; ")
    assert "nothing is named" in refused(2, "remove", store, "--missing-ok")


def test_split_names_its_batch(cli, refused, rows, tmp_path):
    assert cli("split", rows, tmp_path / "s", "-q", "--batch", "monday").status == 0
    assert [batch["name"] for batch in info(cli, tmp_path / "s")["batches"]] == ["monday"]
    assert "plain name" in refused(2, "split", rows, tmp_path / "t", "--batch", "a/b")
    assert not (tmp_path / "t").exists()
