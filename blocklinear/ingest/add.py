"""`add`: text becomes a further batch of a store, in blocks of its own."""

import contextlib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from blocklinear.arguments import Path as AnyPath
from blocklinear.arguments import check_options, path_list
from blocklinear.classes import Classes, code_text, to_json
from blocklinear.errors import MismatchError, UsageError
from blocklinear.events import BatchPresent, Listener, Warned, ignore
from blocklinear.ingest.compact import usual_bytes
from blocklinear.ingest.ingest import Batch, Ingestion, Paths, read_batch, total_bytes
from blocklinear.ingest.numbering import Numbering
from blocklinear.ingest.writer import Plan, make_plan
from blocklinear.inputs.raw import digest_of, size_of
from blocklinear.inputs.urls import shown_name
from blocklinear.numerals import format_number
from blocklinear.options import AddOptions, SplitOptions
from blocklinear.store.changes import AnyStore, changing, commit, new_blocks, skipped_name
from blocklinear.store.features import read_features
from blocklinear.store.files import remove_files, sync_directory
from blocklinear.store.manifest import Manifest, digest_name
from blocklinear.store.records import BlockRecord
from blocklinear.store.store import BlockStore
from blocklinear.store.weight_stats import with_labels


def add(
    store: AnyStore,
    inputs: AnyPath | Sequence[AnyPath],
    options: AddOptions | None = None,
    listener: Listener = ignore,
) -> BlockStore:
    """Add LIBSVM text to a store: all of its rows, or none if anything fails.

    See `blocklinear.add` for arguments and errors.
    """
    options, inputs = options or AddOptions(), path_list(inputs)
    check_options(options, AddOptions)
    with changing(store) as old:
        if old.manifest.of_tables:
            raise MismatchError(
                f"{old.folder}: is made of tables, not of text", "add tables of the same columns"
            )
        seen = _Seen(old.manifest, options.allow_duplicate)
        check_weights(old.manifest, options.weights is not None, "--weights")
        new_rows = split_options(old.manifest, options, "sha256" in seen.digests)
        present = _Present(old, options)
        if present.look_at(inputs, seen.digests, listener):
            return old
        for path in inputs:
            seen.refuse_file(path)
        name = batch_name(old.manifest, None if present.is_taken else options.batch)
        try:
            with new_blocks(old) as first, list_of_skipped(old, name):
                named = replace(new_rows, batch=name)
                return _write(old, inputs, named, seen, present, first, listener)
        except _FoundError as found:
            listener(BatchPresent(found.batch))
            return old


@contextlib.contextmanager
def list_of_skipped(store: BlockStore, batch: str) -> Iterator[None]:
    """Delete the list of the refused lines of a batch, unless the batch comes to be."""
    path = store.folder / skipped_name(batch)
    remove_files([path])  # of one that was killed, or removed
    try:
        yield
    except BaseException:
        if batch not in {b["name"] for b in Manifest.load(store.folder).batches}:
            remove_files([path])
        raise


class _FoundError(Exception):
    """What was read is in the store already, as `batch`."""

    def __init__(self, batch: str) -> None:
        super().__init__(batch)
        self.batch = batch


class _Present:
    """The batches that may be what is to be added, where that may be there already.

    Attributes
    ----------
    is_taken : bool           whether one has the name that is asked for
    """

    def __init__(self, store: BlockStore, options: AddOptions) -> None:
        self._place, self._weights = store.folder, options.weights
        batches = store.manifest.batches if options.if_absent else []
        self._batches = [b for b in batches if options.batch in (None, b["name"])]
        self.is_taken = bool(self._batches) and options.batch is not None

    def look_at(self, inputs: Paths, digests: Collection[str], listener: Listener) -> bool:
        """Say whether a batch has these inputs, if that is known before they are read."""
        paths = [*inputs, *([self._weights] if self._weights is not None else [])]
        if not self._batches:
            return False
        files: list[dict[str, Any]] = [{"size": size_of(path)} for path in paths]
        sizes = [file["size"] for file in files]
        if None in sizes:
            return False
        if any([known["size"] for known in _files_of(b)] == sizes for b in self._batches):
            for path, file in zip(paths, files, strict=True):
                file.update({name: digest_of(path, name) for name in digests})
        try:
            self.check(files)
        except _FoundError as found:
            listener(BatchPresent(found.batch))
            return True
        return False

    def check(self, files: Sequence[dict[str, Any]]) -> None:
        """Raise _FoundError if a batch has these files, MismatchError if it should but does not.

        Parameters
        ----------
        files : sequence of dict
            Sizes and digests, in the order of the inputs, the file of weights last.
        """
        for batch in self._batches:
            known = _files_of(batch)
            if len(known) != len(files) or not all(map(_is_same, known, files)):
                continue
            if batch["rows"] != sum(source["rows"] for source in batch["sources"]):
                raise MismatchError(
                    f"{self._place}: some rows of batch {batch['name']} were removed",
                    "remove all of it before it is added again",
                )
            raise _FoundError(batch["name"])
        if self.is_taken:
            raise MismatchError(
                f"{self._place}: batch {self._batches[0]['name']} is not of this input",
                "remove it before, or choose another name for --batch",
            )


def _files_of(batch: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the files of a batch as its manifest has them; weights from a column are in none."""
    weights = [file for file in batch.get("weights", ()) if file["size"] or file[digest_name(file)]]
    return [*batch["sources"], *weights]


def _is_same(known: dict[str, Any], file: dict[str, Any]) -> bool:
    name = digest_name(known)
    same: bool = (known["size"], known[name]) == (file["size"], file.get(name))
    return same


def _write(
    old: BlockStore,
    inputs: Paths,
    options: SplitOptions,
    seen: "_Seen",
    present: _Present,
    first: int,
    listener: Listener,
) -> BlockStore:
    """Read the inputs into blocks from number `first` on, and commit them."""
    plan = make_plan(options, total_bytes(inputs, options), usual_bytes(old.manifest.blocks))
    batch = read_batch(inputs, ingest_into(old, options, plan, first, listener))
    present.check(_files_of(batch.entry()))
    for source in batch.sources:
        for digest in seen.digests:
            seen.refuse(source["path"], source["size"], source[digest])
        seen.add(source, "this batch")
    return commit_batch(old, batch, listener)


def ingest_into(
    old: BlockStore, options: SplitOptions, plan: Plan, first: int, listener: Listener
) -> Ingestion:
    """Return what takes in the rows of a further batch, in blocks from number `first` on."""
    m, numbering = old.manifest, None
    if m.renumbered:
        known = read_features(old.folder, m)
        numbering = Numbering(options.text, known)
        del known  # it is used up
    return Ingestion(
        old.blocks_folder, plan, options, listener, m.next_row, first, m.labels, m.features,
        numbering,
    )  # fmt: skip


def commit_batch(
    old: BlockStore, batch: Batch, listener: Listener, classes: Classes | None = None
) -> BlockStore:
    """Make a further batch part of a store; `classes` are those of all labels, if not as before.

    MismatchError is raised if the labels of the store are text, and the batch has a number that
    stands for none.
    """
    m = old.manifest
    classes = m.given if classes is None else classes
    _check_labels(batch.labels, classes)
    _tell_of_labels(m.labels, batch.labels, classes, listener)
    dimension = max(m.dimension, batch.dimension)
    n_features = sum(file.features for file in batch.features) if m.renumbered else dimension
    sync_directory(old.blocks_folder)
    return commit(
        old,
        n_features=n_features,
        dimension=dimension,
        features=batch.features,
        classes=to_json(classes),
        labels=batch.labels,
        next_row=batch.next_row,
        next_block=batch.next_block,
        batches=[*m.batches, batch.entry()],
        blocks=[*_relabelled(m.blocks, batch.labels), *batch.blocks],
        removed=_relabelled(m.removed, batch.labels),
    )


def _relabelled(blocks: list[BlockRecord], labels: list[float] | None) -> list[BlockRecord]:
    """Return blocks with their counts in a label table that has grown, or is given up."""
    n = 0 if labels is None else len(labels)
    return [
        replace(b, label_counts=(b.label_counts + [0] * n)[:n], weights=with_labels(b.weights, n))
        for b in blocks
    ]


def batch_name(manifest: Manifest, asked: str | None) -> str:
    """Return the name of a further batch: the one asked for, or one that is numbered."""
    names = {batch["name"] for batch in manifest.batches}
    if asked in names:
        raise UsageError(f"there is a batch {asked} already", "choose another name for --batch")
    if asked is not None:
        return asked
    names |= {block.batch for block in manifest.removed}
    numbers = [int(name[1:]) for name in names if re.fullmatch("b[0-9]{1,9}", name)]
    return f"b{max([1, *numbers]) + 1}"


def check_weights(manifest: Manifest, weighted: bool, name: str) -> None:
    """Refuse rows with weights for a store without, and the other way round; `name` gives them."""
    if manifest.weighted and not weighted:
        raise MismatchError(
            "the rows of the store have weights", f"give those of the new rows as {name}"
        )
    if weighted and not manifest.weighted:
        raise MismatchError(
            "the rows of the store have no weights",
            f"leave out {name}, or split all rows again with {name}",
        )


def split_options(manifest: Manifest, options: AddOptions, sha256: bool) -> SplitOptions:
    """Return the options that the store was made with, and those of reading."""
    text = replace(options.text, record_sha256=options.text.record_sha256 or sha256)
    _refuse_other("number of hash bits", manifest.hash_bits, text.hash_bits or manifest.hash_bits)
    if not manifest.hash_bits and text.index_base not in (None, "auto"):
        _refuse_other("index base", manifest.index_base, text.index_base)
    return SplitOptions(
        text=replace(
            text, index_base=manifest.index_base, base_of="the store", hash_bits=manifest.hash_bits
        ),
        blocks=options.blocks,
        seed=manifest.seed,
        order=manifest.order,
        dtype=manifest.dtype,
        compression=manifest.compression,
        normalize=manifest.normalize,
        weights=options.weights,
        renumber=manifest.renumbered,
    )


def _refuse_other(what: str, has: int, asked: int | str) -> None:
    if asked != has:
        raise MismatchError(
            f"the {what} of the store is {has}, not {asked}",
            "write the rows as those of the store, or split all of them again",
        )


def is_present(store: BlockStore, inputs: Paths, options: AddOptions, listener: Listener) -> bool:
    """Say whether `options.if_absent` is set and a batch has these files already; tell which.

    MismatchError is raised if there is a batch of the name asked for, with other rows.
    """
    digests = _Seen(store.manifest, allowed=True).digests
    return _Present(store, options).look_at(inputs, digests, listener)


def refuse_known(manifest: Manifest, path: str, allowed: bool) -> None:
    """Raise MismatchError if a store has a file with the content of this one, unless `allowed`."""
    _Seen(manifest, allowed).refuse_file(path)


class _Seen:
    """The inputs that a store has, by the number and the digest of their bytes.

    Attributes
    ----------
    digests : set[str]        which digests tell them
    """

    def __init__(self, manifest: Manifest, allowed: bool) -> None:
        self._allowed = allowed
        self._batch: dict[tuple[int, str], str] = {}
        self.digests = {"xxh64"}
        for batch in manifest.batches:
            for source in batch["sources"]:
                self.add(source, f"batch {batch['name']} of {batch['date']}")

    def add(self, source: dict[str, Any], batch: str) -> None:
        """Take up one more."""
        name = digest_name(source)
        self.digests.add(name)
        self._batch[source.get("size", -1), source.get(name, "")] = batch

    def refuse(self, path: str, size: int, digest: str) -> None:
        """Raise MismatchError if there is an input of this size and digest."""
        if (size, digest) in self._batch and not self._allowed:
            raise MismatchError(
                f"{path}: has the same content as an input of {self._batch[size, digest]}",
                "leave it out, or give --allow-duplicate to add its rows once more",
            )

    def refuse_file(self, path: AnyPath) -> None:
        """Do so before a file is read in earnest, if one of its size is there."""
        size = size_of(path)
        if size is not None and any(size == known for known, _ in self._batch):
            for name in self.digests:
                self.refuse(shown_name(path), size, digest_of(path, name))


def _check_labels(labels: Sequence[float] | None, classes: Classes) -> None:
    """Refuse labels that stand for none of the classes, where these are text or large integers."""
    if labels is None and classes:
        raise MismatchError(
            "there are too many distinct labels to be classes, and some are integers beyond 2**53",
            "for regression give y as numbers of float64",
        )
    if any(isinstance(name, str) for name in classes.values()):
        other = next((label for label in labels or () if label not in classes), None)
        if other is not None:
            raise MismatchError(
                f"label {format_number(other)} is none of the store, whose labels are text",
                "write labels in LIBSVM text as the numbers that `info` tells",
            )


def _tell_of_labels(
    known: Sequence[float] | None,
    now: Sequence[float] | None,
    classes: Classes,
    listener: Listener,
) -> None:
    if known is None:
        return
    if now is None:
        listener(Warned("there are too many distinct labels to be classes now: they are values"))
    elif new := now[len(known) :]:
        more = f" and {len(new) - 10} more" if len(new) > 10 else ""
        listed = ", ".join(code_text(label, classes) for label in new[:10])
        listener(Warned(f"labels that the store did not have: {listed}{more}"))
