"""Text of names of files: what its rows and features are."""

import io
import sys

LINES = """usr/share/doc/abc/README.Debian            doc/abc,misc/other
usr/lib/ABC-2/a 1.so                       libs/abc2
bin/no                                     admin/no
usr/share/doc/abc/README                   main/doc/abc
"""


def test_words_and_numbers_of_names(make_file_names, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out.svm"
    for every, n_rows, n_features in (("1", 4, 13), ("3", 2, 6)):
        monkeypatch.setattr(sys, "argv", ["x", str(out), "--of", "doc", "--every", every])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINES.encode())))
        make_file_names.main()
        found = out.read_text().splitlines()
        assert f'"rows": {n_rows}, "features": {n_features}' in capsys.readouterr().out
        assert found[0] == "1 1:1 2:1 3:1 4:1 5:1 6:1"
        assert found[-1] == "1 1:1 2:1 3:1 4:1 5:1"
        assert [row.split()[0] for row in found] == ["1", "-1", "-1", "1"][:: int(every)]
