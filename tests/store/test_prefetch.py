import threading

import numpy as np
import pytest
from programs import GUARD_S

from blocklinear.errors import DamagedError, InputError
from blocklinear.store import blocks, prefetch
from blocklinear.store.groups import Pins
from blocklinear.store.prefetch import GroupLoader
from blocklinear.text import norms

from .build import all_rows, in_input, load, make_store, random_text, rows_in

pytestmark = pytest.mark.usefixtures("all_processors")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("prefetch"), random_text(80), blocks=6)


@pytest.mark.parametrize("pin_bytes", [0, 5000, 1 << 30])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("group", [1, 2, 4, 5])
def test_groups_hold_the_rows_of_their_blocks(store, group, threads, pin_bytes):
    rng = np.random.default_rng(group)
    with GroupLoader(store, group, threads, pin_bytes) as loader:
        before = None
        for _ in range(3):
            order = rng.permutation(6).tolist()
            visits = [tuple(order[k : k + group]) for k in range(0, 6, group)]
            seen = {}
            for visit, loaded in zip(visits, loader.stream(visits), strict=True):
                assert loaded.group.blocks == visit
                rows = rows_in(of_input(store, loaded.group))
                assert rows == rows_in(load(store.folder, store.manifest, visit))
                assert (loaded.load_s > 0) == (visit != before)
                before = visit
                seen |= rows
            assert seen == all_rows(store.folder, store.manifest)


def test_what_is_in_memory_is_copied_without_another_thread(store):
    """A worker of a cluster has a loader for each task, and its blocks for the whole run."""
    pins = Pins(1 << 30)
    for expected in (True, False):
        with GroupLoader(store, 3, 1, pins=pins) as loader:
            for loaded in loader.stream([(4, 0, 5)]):
                rows = rows_in(of_input(store, loaded.group))
                assert rows == rows_in(load(store.folder, store.manifest, (4, 0, 5)))
            named = {thread.name.split("_")[0] for thread in threading.enumerate()}
            assert ("load" in named) == expected


@pytest.mark.parametrize(("beyond", "expected"), [(-1, True), (0.4, True), (0.6, False)])
def test_blocks_that_the_page_cache_cannot_hold_are_read_past_it(
    store, monkeypatch, beyond, expected
):
    n_bytes = sum(block.bytes for block in store.manifest.blocks)
    monkeypatch.setattr(prefetch, "available_bytes", lambda: 1000 + int(beyond * n_bytes))
    read, original = [], blocks.read_past_cache
    monkeypatch.setattr(blocks, "read_past_cache", lambda *a: read.append(a) or original(*a))
    for memory_bytes in (1000, None):
        read.clear()
        with GroupLoader(store, 2, 1, memory_bytes=memory_bytes) as loader:
            for loaded in loader.stream([(0, 1), (2, 3)]):
                rows = rows_in(of_input(store, loaded.group))
                assert rows == rows_in(load(store.folder, store.manifest, loaded.group.blocks))
        assert len(read) == 4 * (expected and memory_bytes is not None)


@pytest.mark.parametrize(("room", "at_once"), [(0, 2), (1, 3), (9, 4)])
def test_no_more_blocks_are_read_at_a_time_than_there_is_room_for(
    store, monkeypatch, room, at_once
):
    """By eight threads, of which four could decode; one more block is read ahead."""
    used, reading = set(), threading.Condition()
    take, decode = blocks._Room.of, prefetch.GroupBuffer._decode

    def taken(part, size):
        with reading:
            used.add(part)
            reading.notify_all()
        return take(part, size)

    def once_all_is_read(*given):
        with reading:
            assert reading.wait_for(lambda: len(used) > at_once, timeout=GUARD_S)
        decode(*given)

    monkeypatch.setattr(blocks._Room, "of", taken)
    monkeypatch.setattr(prefetch.GroupBuffer, "_decode", once_all_is_read)
    largest = max(block.bytes for block in store.manifest.blocks)
    with GroupLoader(store, 4, 8, room * largest) as loader:
        for _ in loader.stream([(0, 1, 2, 3), (4, 5), (1, 2, 3, 0)]):
            pass
    assert len(used) == at_once + 1


def test_a_group_stays_whole_while_the_next_is_loaded(store):
    visits = [(k,) for k in (3, 1, 5, 0, 2, 4)]
    with GroupLoader(store, 1, 2) as loader:
        for loaded in loader.stream(visits):
            before = rows_in(of_input(store, loaded.group))
            loader._ahead.submit(int).result()  # what was asked to be loaded ahead is loaded
            assert rows_in(of_input(store, loaded.group)) == before


def test_the_first_of_the_next_stream_is_loaded_while_the_last_is_used(store, monkeypatch):
    loads, original = [], GroupLoader._load
    monkeypatch.setattr(
        GroupLoader,
        "_load",
        lambda self, blocks, *a: loads.append(blocks) or original(self, blocks, *a),
    )
    first, second = [(0, 1), (2, 3), (4, 5)], [(5, 2), (0, 3), (1, 4)]
    with GroupLoader(store, 2, 2) as loader:
        for visits, following in ((first, second[0]), (second, second[0]), (second[:1], None)):
            for visit, loaded in zip(visits, loader.stream(visits, following), strict=True):
                loader._ahead.submit(int).result()
                assert rows_in(of_input(store, loaded.group)) == rows_in(load_of(store, visit))
            assert loads == [*loads[:-1], following or visits[-1]]
    assert loads == [*first, *second, second[0]]  # none of them twice, none in vain


def test_where_a_stream_was_left_the_next_goes_on(store, monkeypatch):
    loads, original = [], GroupLoader._load
    monkeypatch.setattr(
        GroupLoader,
        "_load",
        lambda self, blocks, *a: loads.append(blocks) or original(self, blocks, *a),
    )
    visits = [(0, 1), (2, 3), (4, 5)]
    with GroupLoader(store, 2, 2) as loader:
        for second, third in (visits[1:], [(4, 5), (2, 3)], [(0, 1), (5, 4)]):
            for loaded in loader.stream(visits):
                if loaded.group.blocks == second:
                    break
            for visit, loaded in zip((second, third), loader.stream([second, third]), strict=True):
                loader._ahead.submit(int).result()
                assert rows_in(of_input(store, loaded.group)) == rows_in(load_of(store, visit))
    # what was in memory, or on the way there, was not loaded again
    assert loads[:3] == visits


def test_another_stream_than_the_one_foretold(store):
    with GroupLoader(store, 2, 2) as loader:
        assert len(list(loader.stream([(0, 1)], (2, 3)))) == 1
        (loaded,) = loader.stream([(4, 5)])
        assert rows_in(of_input(store, loaded.group)) == rows_in(load_of(store, (4, 5)))


def of_input(store, group):
    return in_input(store.folder, store.manifest, group)


def load_of(store, visit):
    return load(store.folder, store.manifest, visit)


@pytest.mark.parametrize("group", [6, 7])
def test_a_group_of_all_blocks_is_loaded_once_and_kept(store, group):
    everything = tuple(range(6))
    with GroupLoader(store, group, 2) as loader:
        (first,) = loader.stream([everything])
        (again,) = loader.stream([everything])
    assert again.group is first.group
    assert first.load_s > 0
    assert again.load_s == 0
    assert rows_in(of_input(store, first.group)) == all_rows(store.folder, store.manifest)


def test_a_stream_may_be_left_early(store):
    with GroupLoader(store, 2, 2) as loader:
        next(loader.stream([(0, 1), (2, 3), (4, 5)]))
        seen = [loaded.group.blocks for loaded in loader.stream([(5, 0), (1,)])]
        assert seen == [(5, 0), (1,)]
        (loaded,) = loader.stream([(4, 2)])
        assert rows_in(of_input(store, loaded.group)) == rows_in(
            load(store.folder, store.manifest, (4, 2))
        )


@pytest.mark.parametrize("group", [1, 6])
def test_damage_is_told_when_the_block_is_asked_for(tmp_path, group):
    """Also in the middle of a run: every load checks again."""
    store = make_store(tmp_path, random_text(30), blocks=6)
    path = store.blocks_folder / store.manifest.blocks[3].name
    visits = [(k,) for k in range(6)] if group == 1 else [tuple(range(6))]
    with GroupLoader(store, group, 2) as loader:
        if group == 1:
            assert len(list(loader.stream(visits))) == 6
        data = bytearray(path.read_bytes())
        data[50] ^= 16
        path.write_bytes(data)
        stream = loader.stream(visits)
        for _ in visits[:3] if group == 1 else ():
            next(stream)
        with pytest.raises(DamagedError, match=r"b00000003\.blk: damaged"):
            next(stream)


def test_a_row_too_large_for_training_is_refused_in_a_store_of_an_earlier_version(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(norms, "too_large", lambda *rows: np.empty(0, int))  # as it was read then
    text = b"1 1:1\n-1 2:1\n" * 20 + b"1 1:9.9e153 2:9.9e153 3:9.9e153\n"
    store = make_store(tmp_path, text, blocks=3, order="file")
    assert store.verify().faults == []
    message = r"squares of a row add up to more than can be trained on \(line 41 of "
    for visits in ([(0,), (1,), (2,)], [(0, 1, 2)]):
        with (
            GroupLoader(store, len(visits[0]), 1) as loader,
            pytest.raises(InputError, match=message),
        ):
            list(loader.stream(visits))
