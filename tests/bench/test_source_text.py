"""Text of source code: what its rows and features are."""

import sys

import numpy as np


def test_words_and_pairs_of_a_tree(make_source_text, tmp_path, monkeypatch, capsys):
    tree, out = tmp_path / "tree", tmp_path / "out.svm"
    for number in range(4):
        for folder, word in (("drivers", "device"), ("lib", "sort")):
            (tree / folder).mkdir(parents=True, exist_ok=True)
            text = f"int {word}_of(int n);\n" * 20 + f"rare{folder}{number} " * number
            (tree / folder / f"f{number}.c").write_text(text)
    (tree / "lib" / "short.c").write_text("int x;\n")
    (tree / "lib" / "picture.png").write_bytes(bytes(100))
    monkeypatch.setattr(sys, "argv", ["x", str(tree), str(out), "--of", "drivers"])
    make_source_text.main()
    rows = [line.split() for line in out.read_text().splitlines()]
    assert sorted(row[0] for row in rows) == ["-1"] * 4 + ["1"] * 4
    found = {"1": set(), "-1": set()}
    for label, *pairs in rows:
        columns, values = zip(*(pair.split(":") for pair in pairs), strict=True)
        assert list(map(int, columns)) == sorted(map(int, columns))
        assert abs(np.linalg.norm(np.array(values, float)) - 1.0) < 1e-5
        found[label] |= set(map(int, columns))
    assert not found["1"] & found["-1"]
    # its own word, that after int, and int after it; int, which all rows have, tells nothing
    assert len(found["1"]) == len(found["-1"]) == 3
    assert '"rows": 8, "of 1": 4' in capsys.readouterr().out
