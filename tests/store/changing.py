"""What the tests of changes to a store have in common."""

import hashlib

import pytest

from blocklinear.ingest.add import add
from blocklinear.options import AddOptions
from blocklinear.store.store import BlockStore

from .build import (
    all_rows,
    load,
    small_text_options,
)

MORE = b"1 2:0.25 1000:1\n7 1:1\n-1\n"
LEAST = 256  # bytes: blocks of these tests are small


def add_options(allow_duplicate=False, batch=None, blocks=None, if_absent=False, **text):
    text = small_text_options(**({"index_base": "auto"} | text))
    return AddOptions(text, batch, blocks, allow_duplicate, if_absent=if_absent)


def add_text(store, text, heard=None, **options):
    """Add text from a file of its own."""
    path = store.folder.with_name(f"added{len(list(store.folder.parent.glob('added*')))}.svm")
    path.write_bytes(text)
    listener = heard.append if heard is not None else lambda event: None
    return add(store, [path], add_options(**options), listener)


def as_0_1_0(store, text):
    """Write what version 0.1.0 wrote of the only source of a store: its SHA-256, and no XXH64."""
    (source,) = store.manifest.batches[0]["sources"]
    del source["xxh64"]
    source["sha256"] = hashlib.sha256(text).hexdigest()
    store.manifest.save(store.folder)


def rows_of(store):
    return all_rows(store.folder, store.manifest)


def numbers_of(store):
    """Return {block name: row numbers in it}."""
    m = store.manifest
    return {
        block.name: load(store.folder, m, [k]).row_numbers.tolist()
        for k, block in enumerate(m.blocks)
    }


def intact(store):
    report = BlockStore.open(store.folder).verify()
    return report.faults == [] and report.rows == store.manifest.n_rows


def refused(kind, code, call, *args, match=None, **kwargs):
    with pytest.raises(kind, match=match) as caught:
        call(*args, **kwargs)
    assert caught.value.exit_code == code
    return caught.value
