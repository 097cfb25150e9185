"""Nothing but what was written is ever used: accidents and exchanged files."""

import errno
import os
from dataclasses import replace

import pytest

from blocklinear.errors import DamagedError, StorageError
from blocklinear.numerals import counted
from blocklinear.store.blocks import BlockFile
from blocklinear.store.manifest import Manifest
from blocklinear.store.store import BlockStore

from .build import TEXT, all_rows, load, make_store


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A store stored as is and a compressed one, for tests that put back what they change."""
    folder = tmp_path_factory.mktemp("stores")
    return {name: make_store(folder, name=name, compression=name) for name in ("none", "zstd")}


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path)


def refused(path, store, position, match=None):
    with pytest.raises(DamagedError, match=match) as caught:
        load(store.folder, store.manifest, [position])
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_every_flipped_bit_of_a_block_is_found(stores, compression, position):
    """Every bit of a block stored as is; of a compressed one, every seventh."""
    store = stores[compression]
    path = store.blocks_folder / store.manifest.blocks[position].name
    whole = path.read_bytes()
    try:
        for place in range(0, 8 * len(whole), 1 if compression == "none" else 7):
            spoiled = bytearray(whole)
            spoiled[place // 8] ^= 1 << place % 8
            path.write_bytes(spoiled)
            refused(path, store, position)
    finally:
        path.write_bytes(whole)
    assert store.verify().faults == []


def outcome(folder):
    """Return the manifest, or the text of the error."""
    try:
        return Manifest.load(folder)
    except DamagedError as error:
        return str(error)


def test_a_flipped_bit_in_any_byte_of_a_manifest_is_found(stores):
    folder = stores["none"].folder
    path = folder / "manifest.json"
    whole, manifest = path.read_bytes(), stores["none"].manifest
    harmless = []
    try:
        for place in range(len(whole)):
            spoiled = bytearray(whole)
            spoiled[place] ^= 1 << place % 8
            path.write_bytes(spoiled)
            if outcome(folder) == manifest:
                harmless.append(place)
            else:
                assert str(path) in outcome(folder)
    finally:
        path.write_bytes(whole)
    assert harmless == []


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_block_of_any_other_length_is_refused(stores, compression):
    store = stores[compression]
    path = store.blocks_folder / store.manifest.blocks[1].name
    whole = path.read_bytes()
    changed = [whole[:n] for n in range(len(whole))]
    changed += [whole + more for more in (b"\0", b"\0" * 4096, whole[-20:], whole)]
    try:
        for data in changed:
            path.write_bytes(data)
            refused(
                path,
                store,
                1,
                f"it has {counted(len(data), 'byte')}, the manifest says {len(whole)}",
            )
    finally:
        path.write_bytes(whole)


def test_a_manifest_of_any_other_length_is_refused(stores):
    folder = stores["none"].folder
    path = folder / "manifest.json"
    whole = path.read_bytes()
    try:
        for n in range(len(whole) - 1):  # without its newline it says the same
            path.write_bytes(whole[:n])
            with pytest.raises(DamagedError, match="damaged"):
                Manifest.load(folder)
        for more in (b"\0", b"}", whole):
            path.write_bytes(whole + more)
            with pytest.raises(DamagedError, match="damaged"):
                Manifest.load(folder)
    finally:
        path.write_bytes(whole)


def test_a_page_of_zeros(tmp_path):
    text = b"".join(b"%d %d:%d.5\n" % (i % 2, i % 90 + 1, i) for i in range(5000))
    store = make_store(tmp_path, text, blocks=1)
    path = store.blocks_folder / store.manifest.blocks[0].name
    with open(path, "r+b") as stream:
        stream.seek(4096)
        stream.write(b"\0" * 4096)
    refused(path, store, 0, "checksum")


# files exchanged


def test_swapped_blocks(store):
    first, second = (store.blocks_folder / block.name for block in store.manifest.blocks[:2])
    data = first.read_bytes(), second.read_bytes()
    first.write_bytes(data[1])
    second.write_bytes(data[0])
    refused(first, store, 0)
    refused(second, store, 1)


def test_a_block_of_another_store(store, tmp_path):
    other = make_store(tmp_path, TEXT.replace(b"0.5", b"0.7"), name="other")
    sizes = [[block.bytes for block in s.manifest.blocks] for s in (store, other)]
    assert sizes[0] == sizes[1]
    foreign = []
    for position, block in enumerate(store.manifest.blocks):
        path = store.blocks_folder / block.name
        data = (other.blocks_folder / block.name).read_bytes()
        if data != path.read_bytes():
            path.write_bytes(data)
            refused(path, store, position, "not the block that the manifest names")
            foreign.append(position)
    assert len(foreign) == 1
    assert len(store.verify().faults) == 1


def test_a_missing_block(store):
    path = store.blocks_folder / store.manifest.blocks[2].name
    path.unlink()
    refused(path, store, 2, "No such file")
    report = store.verify()
    assert (len(report.faults), report.blocks) == (1, 3)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["folder", "fifo"])
def test_something_else_in_place_of_a_block(store, make):
    path = store.blocks_folder / store.manifest.blocks[0].name
    path.unlink()
    make(path)
    before = len(os.listdir("/proc/self/fd"))
    refused(path, store, 0, "not a regular file")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("name", ["blocks/b00000002.blk", "origin.json", "manifest.json"])
def test_what_cannot_be_opened_is_not_damaged(store, monkeypatch, name, number):
    real, path = os.open, store.folder / name

    def fail(opened, *how, **more):
        if str(opened) == str(path):
            raise OSError(number, os.strerror(number), path)
        return real(opened, *how, **more)

    monkeypatch.setattr("os.open", fail)
    with pytest.raises(StorageError, match=os.strerror(number)) as caught:
        load(store.folder, BlockStore.open(store.folder).manifest, [2])
    assert str(path) in caught.value.what
    fix = "allow more open files" if number == errno.EMFILE else "check the disk"
    assert caught.value.fix.startswith(fix)


def test_a_symlink_in_place_of_a_block(store, tmp_path):
    path = store.blocks_folder / store.manifest.blocks[0].name
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    refused(path, store, 0, "symbolic")


def test_verify_says_what_is_not_used(store):
    (store.blocks_folder / "b00000009.blk").touch()
    report = store.verify()
    assert report.unused_files == ["b00000009.blk"]
    assert report.faults == []
    assert "all intact; 1 file in it is not part of the store" in report.summary()


def test_an_older_manifest_opens_the_older_store(store):
    """A rolled back manifest is consistent in itself: files it does not name do not matter."""
    before = all_rows(store.folder, store.manifest)
    (store.blocks_folder / "b00000003.blk").write_bytes(b"of the next generation")
    assert all_rows(store.folder, BlockStore.open(store.folder).manifest) == before


def test_verify_compares_the_digest_and_the_labels(store):
    record = store.manifest.blocks[0]
    digest = BlockFile(store.blocks_folder, replace(record, envelope_sha256="0" * 64))
    with pytest.raises(DamagedError, match="SHA-256"):
        digest.check_digest()
    swapped = replace(record, label_counts=record.label_counts[::-1])
    assert swapped != record
    manifest = replace(store.manifest, blocks=[swapped, *store.manifest.blocks[1:]])
    report = BlockStore(store.folder, manifest).verify()
    assert len(report.faults) == 1
    assert "labels" in report.faults[0]
