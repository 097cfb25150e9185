import pytest

from blocklinear.planning import machine
from blocklinear.planning.machine import Machine


def test_a_machine_is_measured_once(cache, monkeypatch):
    found = Machine.known()
    assert all(ns > 0 for ns in found.lookup_ns.values())
    assert found.write_bytes_s > 0
    assert found.read_bytes_s > 0
    monkeypatch.setattr(Machine, "measured", classmethod(lambda cls: pytest.fail("again")))
    assert Machine.known() == found


def test_it_is_measured_again_on_demand_or_where_the_note_is_unusable(cache, monkeypatch):
    Machine.known()
    (note,) = cache.iterdir()
    other = Machine({1 << 12: 1.0}, 2.0, 3.0)
    monkeypatch.setattr(Machine, "measured", classmethod(lambda cls: other))
    assert Machine.known(anew=True) == other
    for text in (b"", b"{}", b"[1]", note.read_bytes().replace(b'"key": [', b'"key": [0, ')):
        note.write_bytes(text)
        assert Machine.known() == other


def test_no_folder_for_the_note(cache):
    cache.parent.parent.mkdir()
    cache.parent.write_text("a file")
    assert Machine.known().write_bytes_s > 0


def test_lookups_are_interpolated():
    found = Machine({1 << 10: 1.0, 1 << 12: 3.0}, 1.0, 1.0)
    assert found.lookup(1 << 11) == 2.0
    assert found.lookup(0) == 1.0
    assert found.lookup(1 << 40) == 3.0


def test_a_disk_that_cannot_be_read_past_the_cache(monkeypatch):
    monkeypatch.setattr(machine, "_read_seconds", lambda name, piece: None)
    found = Machine.measured()
    assert found.read_bytes_s == found.write_bytes_s
