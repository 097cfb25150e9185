"""Files cut at line ends."""

import numpy as np
import pytest

from blocklinear.errors import StorageError, UsageError
from blocklinear.inputs import extents
from blocklinear.inputs.extents import cut, whole
from blocklinear.inputs.raw import RawFile


def read(extent):
    raw = RawFile(extent.path, extent=extent)
    data = b""
    while more := raw.read(7):
        data += more
    raw.finish()
    return data


@pytest.mark.parametrize("look", [1, 3, 1 << 16])
@pytest.mark.parametrize("piece_bytes", [1, 2, 5, 16, 1000])
def test_pieces_are_whole_lines_and_all_of_them(tmp_path, monkeypatch, piece_bytes, look):
    monkeypatch.setattr(extents, "_LOOK_BYTES", look)
    rng = np.random.default_rng(0)
    path = tmp_path / "text"
    for last in ("", "\n", "\n\n\n"):
        lengths = rng.integers(0, 9, 40)
        path.write_bytes(("\n".join("x" * n for n in lengths) + last).encode())
        pieces = [read(extent) for extent in cut(whole(str(path)), piece_bytes)]
        assert b"".join(pieces) == path.read_bytes()
        assert all(pieces)
        assert all(piece.endswith(b"\n") for piece in pieces[:-1])
        assert all(piece[:-1].count(b"\n") < max(piece_bytes, 1) for piece in pieces)
        assert len(pieces) > 1 or piece_bytes > 100


def test_a_line_without_end_is_one_piece(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"x" * 5000)
    (extent,) = cut(whole(str(path)), 10)
    assert extent.whole
    assert read(extent) == path.read_bytes()


def test_an_empty_file_is_one_piece(tmp_path):
    (tmp_path / "text").touch()
    (extent,) = cut(whole(str(tmp_path / "text")), 10)
    assert (extent.start, extent.stop) == (0, 0)


def test_a_file_that_has_changed(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a\nb\n")
    extent = cut(whole(str(path)), 2)[1]
    assert read(extent) == b"b\n"
    path.write_bytes(b"a\nb\nc\n")
    with pytest.raises(StorageError, match="changed"):
        RawFile(extent.path, extent=extent)


def test_what_is_no_file(tmp_path):
    with pytest.raises(UsageError, match="no file"):
        whole(str(tmp_path))
    with pytest.raises(StorageError, match="nothing"):
        whole(str(tmp_path / "nothing"))
