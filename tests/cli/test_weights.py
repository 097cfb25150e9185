import bz2
import json

import programs
import pytest

from .conftest import ROWS

N = ROWS.count("\n")
SMALL = ("--threads", 2, "-q")


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "weights.txt"
    path.write_text("".join(f"{k % 3}\n" for k in range(N)))
    return path


@pytest.fixture
def weighted(cli, rows, weights, tmp_path):
    path = tmp_path / "weighted"
    done = cli("split", rows, path, "--weights", weights, "--blocks", 4, *SMALL)
    assert done.status == 0
    assert done.err == f"warning: {N // 3} rows have weight 0: stored, but not trained on\n"
    assert f"weights of rows: 1 to 2, {N} in all; {N // 3} rows have weight 0" in done.out
    return path


def info(cli, store):
    return json.loads(cli("info", store, "--json").out)


def primal(cli, *arguments):
    done = cli("train", *arguments, "-q", "--gap", "1e-7")
    assert done.status == 0, done.err
    return float(done.out.split("primal ")[1].split(",")[0])


def test_a_store_with_weights(cli, weighted, weights, rows, tmp_path):
    facts = info(cli, weighted)
    assert facts["weights"] == {"zeros": N // 3, "least": 1.0, "largest": 2.0, "total": float(N)}
    (file,) = facts["batches"][0]["weights"]
    assert (file["path"], file["size"]) == (str(weights), weights.stat().st_size)
    assert f"from {rows} with weights from {weights}" in cli("info", weighted).out
    assert cli("verify", weighted).status == 0
    lines = ROWS.splitlines(keepends=True)
    (tmp_path / "again.svm").write_text("".join(line * (k % 3) for k, line in enumerate(lines)))
    ours = primal(cli, weighted, tmp_path / "m")
    assert ours == pytest.approx(primal(cli, tmp_path / "again.svm", tmp_path / "n"), rel=1e-6)


def test_rows_or_weights_from_standard_input(rows, weights, refused, tmp_path):
    packed = tmp_path / "w.bz2"
    packed.write_bytes(bz2.compress(weights.read_bytes()))
    stores = []
    for name, stdin, arguments in (
        ("a", rows, ["-", "--weights", packed]),
        ("b", weights, [rows, "--weights", "-"]),
    ):
        store = tmp_path / name
        command = ["split", arguments[0], store, *arguments[1:], "--blocks", 3, "-q"]
        with open(stdin) as stream:
            done = programs.blocklinear(*command, stdin=stream)
        assert done.returncode == 0, done.stderr
        stores.append([path.read_bytes() for path in sorted((store / "blocks").iterdir())])
    assert stores[0] == stores[1]
    assert "cannot both" in refused(2, "split", "-", tmp_path / "c", "--weights", "-", "-q")


@pytest.mark.parametrize(
    ("text", "status", "where", "fix"),
    [
        (
            "1\n" * (N - 1),
            3,
            f"weights.txt: {N - 1} weights, but the input has {N} rows",
            "one num",
        ),
        (
            "1\n" * (N + 2),
            3,
            f"weights.txt: {N + 2} weights, but the input has {N} rows",
            "one num",
        ),
        ("1\n\n-2\n", 3, "weights.txt:3:1: weight '-2' is negative", "write 0"),
        ("1\n nan\n", 3, "weights.txt:2:2: weight 'nan' is not finite", "write 0"),
        ("1\n1 2\n", 3, "weights.txt:2:1: more than one number in '1 2'", "one number a line"),
        (None, 6, "weights.txt: open failed", "check"),
    ],
)
def test_weights_that_are_refused(refused, rows, weights, tmp_path, text, status, where, fix):
    weights.unlink()
    if text is not None:
        weights.write_text(text)
    before = sorted(path.name for path in tmp_path.iterdir())
    error = refused(status, "split", rows, tmp_path / "s", "--weights", weights, *SMALL)
    assert where in error
    assert fix in error.split("fix: ")[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_add(cli, refused, weighted, store, tmp_path):
    more, weights = tmp_path / "more.svm", tmp_path / "more.txt"
    more.write_text("1 1:0.5\nx\n-1 2:1\n")
    weights.write_text("2\n9\n0.5\n")
    skip = ("--on-error", "skip", *SMALL)
    assert "give those of the new rows as --weights" in refused(5, "add", weighted, more, *skip)
    assert "no weights" in refused(5, "add", store, more, "--weights", weights, *skip)
    done = cli("add", weighted, more, "--weights", weights, "--batch", "two", *skip)
    assert done.status == 0, done.err
    facts = info(cli, weighted)
    assert (facts["rows"], facts["weights"]["total"]) == (N + 2, N + 2.5)
    assert facts["batches"][1]["weights"][0]["path"] == str(weights)
    assert cli("compact", weighted, "--merge-batches", "all", "b1", "two").status == 0
    assert [len(batch["weights"]) for batch in info(cli, weighted)["batches"]] == [2]
    assert cli("verify", weighted).status == 0


def test_text_is_trained_on_without_weights(cli, refused, rows, weights, tmp_path):
    text_store = rows.with_name(f"{rows.name}.blocks")
    assert cli("split", rows, text_store, "--weights", weights, *SMALL).status == 0
    error = refused(5, "train", rows, tmp_path / "m", "-q")
    assert f"{text_store}: its rows have weights" in error
    assert cli("train", text_store, tmp_path / "m", "-q").status == 0
    assert info(cli, text_store)["weights"] is not None
