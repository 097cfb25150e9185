import json

import numpy as np
import pytest

from blocklinear import SplitOptions, TrainOptions, split, train
from blocklinear.events import OuterIteration


@pytest.fixture
def rows(tmp_path):
    random, path = np.random.default_rng(0), tmp_path / "rows.svm"
    lines = [
        f"{label} " + " ".join(f"{j + 1}:{random.normal() + label:.3f}" for j in range(k % 5 + 1))
        for k, label in enumerate(random.choice([-1, 1], 60))
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_an_epoch_and_a_certificate_are_all_entries(guard, rows, tmp_path):
    store = split([rows], tmp_path / "store", SplitOptions(blocks=3))
    counter, heard = guard.Counter(1e-9), []
    options = TrainOptions(selection="permute", gap=1e-9, group=1, max_outer=3, threads=1)
    with guard.counting(counter):
        train(store, options, lambda event: (counter(event), heard.append(event)))
    counts, nnz = counter.counts, store.manifest.nnz
    assert counts["outer"] == 3
    assert counts["solved"] == 3 * nnz
    assert counts["passes"] == 0
    assert sum(e.entries for e in heard if isinstance(e, OuterIteration)) == 3 * nnz
    assert counts["steps"] == 3 * store.manifest.n_rows
    assert counts["certificates"] == counts["in_vain"] == 1
    assert counts["certified"] == 4 * nnz  # so few rows are a sample, too, in each iteration
    train(store, options)  # nothing is counted after the block
    assert counter.counts == counts


@pytest.mark.parametrize("case", ["Crammer-Singer", "5 folds x 4 C, phishing"])
def test_cases_of_many_models_are_counted(guard, case):
    found, seconds = guard.measure([c for c in guard.cases() if case in c.name])
    (name, counts), *_ = found.items()
    assert seconds.keys() == found.keys()
    assert case in name
    assert all(map(len(guard.SEEDS).__eq__, map(len, counts.values())))
    assert sum(counts["solved"]) > sum(counts["certified"]) > 0
    assert min(counts["bytes"]) > 0


def counts(**named):
    """Return counts of one case; those given as one number are alike for both seeds."""
    found = {"solved": 500, "outer": 4, "in_vain": 0} | named
    return {"case": {name: n if isinstance(n, list) else [n, n] for name, n in found.items()}}


@pytest.mark.parametrize(
    ("found", "changed"),
    [
        ({"solved": 549}, []),
        ({"solved": 550}, [("solved", True)]),
        ({"solved": [560, 530]}, []),
        ({"solved": [560, 541]}, [("solved", True)]),
        ({"solved": 455}, []),
        ({"solved": 454}, [("solved", False)]),
        ({"solved": [400, 500]}, []),  # 50 may be by chance
        ({"solved": [400, 700]}, []),
        ({"solved": [600, 640]}, [("solved", True)]),
        ({"outer": [4, 5]}, []),
        ({"outer": 5, "solved": 250}, [("solved", False), ("outer", True)]),
        ({"in_vain": [0, 1]}, []),
        ({"in_vain": 1}, [("in_vain", True)]),
        ({"solved": 0}, [("solved", False)]),
    ],
)
def test_a_tenth_more_or_less_is_a_change(guard, found, changed):
    changes = guard.compare(counts(), counts(**found))
    assert [(change.what, change.grown) for change in changes] == changed


def test_a_case_that_is_not_known_has_grown(guard, capsys):
    assert guard.judged({"counts": {}, "grown": []}, counts()) == 1
    assert "new" in capsys.readouterr().out


def test_a_case_that_is_no_more_is_to_be_taken_out(guard, capsys):
    known = {"counts": counts() | {"old": {"solved": [1]}}, "grown": []}
    assert guard.judged(known, counts()) == 1
    assert "old: expected, but there is no such case" in capsys.readouterr().out
    assert guard.judged(known, counts(), whole=False) == 0


def test_what_is_less_is_told_with_what_to_do(guard, capsys):
    assert guard.judged({"counts": counts(), "grown": []}, counts(solved=250)) == 0
    assert "python bench/guard.py --update" in capsys.readouterr().out


def test_nothing_grows_without_a_reason(guard, tmp_path):
    path, known = (
        tmp_path / "expected.json",
        guard.updated(guard.load(tmp_path / "none"), counts(), ""),
    )
    guard.dump(path, known)
    assert guard.load(path) == {"counts": counts(), "grown": []}
    with pytest.raises(SystemExit, match="--reason"):
        guard.updated(guard.load(path), counts(outer=5), "")
    again = guard.updated(guard.load(path), counts(outer=5, solved=501), "a larger step")
    guard.dump(path, again)
    assert guard.load(path)["counts"] == counts(outer=5, solved=501)
    assert guard.load(path)["grown"] == [
        {"reason": "a larger step", "counts": ["case: outer 8 to 10"]}
    ]
    for without in (counts(outer=2), counts(outer=5, another=7), {"other": {"solved": [9]}}):
        assert guard.updated(guard.load(path), without, "")["grown"] == again["grown"]


def test_the_expected_counts_are_of_the_cases_there_are(guard):
    assert list(json.loads(guard.EXPECTED.read_text())["counts"]) == [c.name for c in guard.cases()]


def test_only_some_cases_cannot_be_the_expected_ones(guard, capsys):
    with pytest.raises(SystemExit, match="2"):
        guard.main(["--update", "--only", "hinge"])
    assert "--update takes all cases" in capsys.readouterr().err
