import json

import pytest


def test_info_of_a_store(cli, store):
    done = cli("info", store)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("60 rows, 6 features, 120 entries\n4 blocks, ")


def test_info_of_a_store_for_scripts(cli, store, rows):
    done = cli("info", store, "--json")
    assert (done.status, done.err, done.out.count("\n")) == (0, "", 1)
    facts = json.loads(done.out)
    wanted = {name: facts[name] for name in ("rows", "features", "nnz", "blocks")}
    assert wanted == {"rows": 60, "features": 6, "nnz": 120, "blocks": 4}
    assert facts["bytes"] == sum(path.stat().st_size for path in (store / "blocks").iterdir())
    assert facts["labels"] == [{"label": 1.0, "rows": 30}, {"label": -1.0, "rows": 30}]
    assert [batch["name"] for batch in facts["batches"]] == ["b1"]
    assert facts["batches"][0]["sources"][0]["path"] == str(rows)


@pytest.mark.parametrize("format", ["native", "liblinear"])
def test_info_of_a_model(cli, store, tmp_path, format):
    assert cli("train", store, tmp_path / "m", "-q", "--format", format).status == 0
    done = cli("info", tmp_path / "m")
    assert (done.status, done.err) == (0, "")
    assert "L2R_L1LOSS_SVC_DUAL (-s 3)" in done.out
    facts = json.loads(cli("info", tmp_path / "m", "--json").out)
    assert (facts["labels"], facts["features"], facts["bias"]) == ([1.0, -1.0], 6, -1.0)
    assert ("certificate" in facts) == (format == "native")


def test_info_of_what_is_neither(refused, rows, tmp_path):
    assert "not a model" in refused(4, "info", rows)
    assert "not a store" in refused(4, "info", tmp_path)
    refused(6, "info", tmp_path / "none")


def test_verify(cli, store):
    done = cli("verify", store)
    assert (done.status, done.err) == (0, "")
    assert done.out == "4 blocks, 60 rows, 120 entries: all intact\n"
    report = json.loads(cli("verify", store, "--json").out)
    assert (report["blocks"], report["rows"], report["nnz"]) == (4, 60, 120)
    assert report["faults"] == report["unused_files"] == []


def test_verify_names_what_is_damaged_and_what_is_missing(cli, store):
    first, second = sorted((store / "blocks").iterdir())[1:3]
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    second.unlink()
    (store / "blocks" / "stray").touch()

    done = cli("verify", store)
    assert done.status == 4
    assert done.out.endswith("2 damaged; 1 file in it is not part of the store\n")
    assert first.name in done.err
    assert second.name in done.err
    done = cli("verify", store, "--json")
    assert done.status == 4
    report = json.loads(done.out)
    assert len(report["faults"]) == 2
    assert report["unused_files"] == ["stray"]


def test_verify_of_no_store(refused, rows, tmp_path):
    refused(6, "verify", tmp_path / "none")
    refused(4, "verify", rows)
