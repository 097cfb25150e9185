"""How many blocks a group has, and how many stay in memory, under the memory budget."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from blocklinear.errors import MemoryBudgetError
from blocklinear.memory import PROCESS_BYTES, WEIGHT_VECTORS, enough, exact_size, format_size
from blocklinear.objectives.models import ALL_SOLVERS, CRAMMER_SINGER
from blocklinear.objectives.problems import SolverType
from blocklinear.options import TrainOptions
from blocklinear.solvers.l1.columns import PRODUCTS_BYTES, column_type
from blocklinear.solvers.sharing import models_by_pass
from blocklinear.solvers.working_set import (
    entry_bytes,
    has_passes,
    unpacked_bytes,
    working_set_bytes,
)
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import DECODED_AT_ONCE
from blocklinear.store.records import BlockRecord

NEWTON_VECTORS = 10
"""What Newton's method needs of a model: points, gradient, diagonal, directions, sums of a pass."""
_LOADED_ROW_BYTES = 32  # a row in a buffer: pointer, label, norm, number
_WEIGHT_BYTES = 8  # and its weight, if it has one
_MODEL_ROW_BYTES = 24  # and for every model but one: alpha, once more while it is written
_SOLVED_ROW_BYTES = 96  # a row being worked on: position, target, C, alpha, span, order
L1_VECTORS = 5
"""What an L1-regularised model needs: weights, pulls, where columns are, and choosing them."""
_L1_ROW_BYTES = 88  # of all rows: label, weight, size, length, target, C, and what descent moves
_L1_MODEL_ROW_BYTES = 16  # and for each model: alpha, decision value
ENOUGH_BLOCKS = 16
"""Larger groups no longer converge in fewer outer iterations; memory pins blocks instead."""
WORKING_SET_SHARE = 2
"""The working set has at most one in so many entries."""


RARE_SHARE = 8
"""What descent on a loss without a gradient, which is rarely slow, keeps for Hessians of Newton
steps is at most one part in so many of what is left."""


@dataclass(frozen=True)
class MemoryPlan:
    """How the budget is used.

    Attributes
    ----------
    group : int               blocks in a group
    pin_bytes : int           for decoded blocks that stay in memory
    spare_bytes : int         for held-out rows
    working_set_entries : int      of the rows of the working set, which are copied; for L1
                              regularisation of columns
    newton : bool             whether there is room for Newton steps, where descent may need them
    hessian : bool            whether there is room for the Hessian of each model
    """

    group: int
    pin_bytes: int
    spare_bytes: int
    newton: bool
    hessian: bool
    working_set_entries: int


def plan_memory(
    manifest: Manifest,
    options: TrainOptions,
    width: int = 1,
    kept: int = 0,
    besides: int = 0,
) -> MemoryPlan:
    """Divide the budget.

    A group has the blocks that were asked for, or all blocks if they fit, or up to `ENOUGH_BLOCKS`;
    one block for L1 regularisation, which keeps columns instead.

    Parameters
    ----------
    width : int
        Weight vectors that are trained.
    kept : int
        Others that are kept as well.
    besides : int
        Bytes that reading a store on a URL takes. They are taken from what would keep decoded
        blocks, if that is enough: then training goes as on a store of this machine.

    Raises
    ------
    MemoryBudgetError
        If the budget does not hold what is needed; says the arithmetic and what would do.
    """
    if besides:
        plan = plan_memory(manifest, options, width, kept)
        if plan.pin_bytes >= besides:
            return replace(plan, pin_bytes=plan.pin_bytes - besides)
    program = PROCESS_BYTES + besides
    n_blocks = len(manifest.blocks)
    weights, l1 = _vector_bytes(manifest, options, width, kept), _solver(options).l1
    fixed = program + weights + _l1_bytes(manifest, options, width)
    model = _making_bytes(manifest, width, kept) + besides
    whole = _copy_bytes(manifest, options)
    copied = whole if l1 else whole // WORKING_SET_SHARE if has_passes(options) else 0
    if options.group is not None:
        group = min(options.group, n_blocks)
    else:
        room = options.memory_bytes - fixed
        group = _largest_group(manifest, width, room - (whole if l1 else 0))
        if l1 and group < n_blocks:
            group = 1
        elif group < n_blocks:
            shared = _largest_group(manifest, width, room - min(room // 2, copied))
            group = max(min(group, 1), min(shared, ENOUGH_BLOCKS))
        if _solver(options).one_class:  # alpha get from block to block within a group
            group = max(group, min(n_blocks, 2))
    needed = fixed + _group_bytes(manifest, max(group, 1), width)
    if group < 1 or needed > options.memory_bytes:
        raise MemoryBudgetError(
            f"the budget of {exact_size(options.memory_bytes)} is too small: the program takes "
            f"{format_size(program)}, {weights // weight_bytes(manifest)} weight vectors of "
            f"{manifest.n_features} features {format_size(weights)}, and {max(group, 1)} of "
            f"{n_blocks} blocks in a group, with those of the next group, "
            f"{format_size(_group_bytes(manifest, max(group, 1), width))}",
            f"give --memory {enough(max(needed, model))} or more"
            + (", or a smaller --group" if group > 1 else ", or split into more blocks"),
        )
    if model > options.memory_bytes:
        raise _no_room_for_model(manifest, options, width, kept)
    spare = options.memory_bytes - needed
    primal = options.method == "newton" and not l1
    newton_bytes = _newton_bytes(manifest, options, width)
    newton = _may_go_over(options) and newton_bytes <= spare
    left = spare - newton_bytes if newton else spare
    smooth = _solver(options).smooth
    share = 2 if smooth or primal else RARE_SHARE
    hessian = (newton or primal) and _hessian_bytes(manifest, width) <= left // share
    # vectors of many models would take the rows' room, and proximal points many products
    newton = newton and (hessian or (width == 1 and smooth))
    spare -= newton_bytes if newton else 0
    spare -= _hessian_bytes(manifest, width) if hessian else 0
    held_out = spare // 2 if options.evaluate is not None else 0
    spare -= held_out
    if not l1:
        unpacked = _unpacked_bytes(manifest, width)
        copied = max(min(spare - unpacked, copied), 0) if group < n_blocks else 0
        spare -= unpacked if copied else 0
    elif spare >= whole + PRODUCTS_BYTES:
        copied = whole + PRODUCTS_BYTES
    else:  # all columns are kept only with products of many of them
        copied = max(min(spare, whole - 1), 0)
    entries = int(min(copied, whole) * manifest.nnz // max(whole, 1))
    return MemoryPlan(group, spare - copied, held_out, newton, hessian, entries)


def plan_again(
    manifest: Manifest,
    options: TrainOptions,
    facts: Mapping[str, Any],
    width: int = 1,
    kept: int = 0,
    besides: int = 0,
) -> MemoryPlan:
    """Divide the budget for a run that is resumed: what decides its course stays as it was.

    Parameters
    ----------
    facts : mapping
        Of its checkpoint: ``group``, ``newton``, ``hessian`` and ``working_set_entries``.
    manifest, options, width, kept, besides
        As for `plan_memory`.

    Raises
    ------
    MemoryBudgetError
        If the budget does not hold that.
    """
    group, newton, hessian = facts["group"], facts["newton"], facts["hessian"]
    entries = facts["working_set_entries"]
    needed = PROCESS_BYTES + _vector_bytes(manifest, options, width, kept)
    needed += _group_bytes(manifest, group, width) + _l1_bytes(manifest, options, width)
    needed += _newton_bytes(manifest, options, width) if newton else 0
    needed += _hessian_bytes(manifest, width) if hessian else 0
    needed += -(-entries * _copy_bytes(manifest, options) // max(manifest.nnz, 1))
    if _solver(options).l1:
        needed += PRODUCTS_BYTES if entries >= manifest.nnz else 0
    elif entries:
        needed += _unpacked_bytes(manifest, width)
    needed = max(needed, _making_bytes(manifest, width, kept)) + besides
    spare = options.memory_bytes - needed
    if spare < 0:
        raise MemoryBudgetError(
            f"the budget of {exact_size(options.memory_bytes)} is less than the "
            f"{enough(needed)} that the run to resume needs",
            f"give --memory {enough(needed)} or more, or give --restart instead of --resume",
        )
    held_out = spare // 2 if options.evaluate is not None else 0
    return MemoryPlan(group, spare - held_out, held_out, newton, hessian, entries)


def weight_bytes(manifest: Manifest) -> int:
    """Return what a weight vector takes in training."""
    return 8 * (manifest.n_features + 1)


def model_bytes(manifest: Manifest) -> int:
    """Return what a weight vector takes in a model, which has all features of the input."""
    return 8 * (manifest.dimension + 1)


def _making_bytes(manifest: Manifest, width: int, kept: int) -> int:
    """Return what making models of what was trained takes, where features were renumbered.

    Then nothing else is in memory but what was trained, and the indices of features, with a sorted
    copy and the file they are read from.
    """
    if not manifest.renumbered:
        return 0
    models, trained = (width + kept) * model_bytes(manifest), width * weight_bytes(manifest)
    return PROCESS_BYTES + models + trained + 12 * manifest.n_features


def _no_room_for_model(
    manifest: Manifest, options: TrainOptions, width: int, kept: int
) -> MemoryBudgetError:
    models, needed = (width + kept) * model_bytes(manifest), _making_bytes(manifest, width, kept)
    return MemoryBudgetError(
        f"the budget of {exact_size(options.memory_bytes)} is too small: the program takes "
        f"{format_size(PROCESS_BYTES)}, {width + kept} weight vectors of a model of "
        f"{manifest.dimension} features {format_size(models)}, and what they are made from, of "
        f"the {manifest.n_features} features that occur, "
        f"{format_size(needed - PROCESS_BYTES - models)}",
        f"give --memory {enough(needed)} or more, or split with --hash-bits",
    )


def _vector_bytes(manifest: Manifest, options: TrainOptions, width: int, kept: int) -> int:
    """Return what all weight vectors take but those of Newton steps; others are `kept`, too.

    With several models there is a vector more for each, which keeps what was certified.
    """
    vectors = WEIGHT_VECTORS + options.average + (width > 1)
    if options.method == "newton":
        vectors = L1_VECTORS if _solver(options).l1 else _newton_vectors(options) + 1
    vectors += options.patience is not None
    return vectors * width * weight_bytes(manifest) + kept * model_bytes(manifest)


def _solver(options: TrainOptions) -> SolverType:
    return ALL_SOLVERS[options.solver]


def _may_go_over(options: TrainOptions) -> bool:
    """Return whether Newton's method could go on where coordinate descent is slow."""
    solver = _solver(options)
    alone = not solver.one_class and options.solver != CRAMMER_SINGER
    return alone and options.method == "dual" and not options.average


def _newton_vectors(options: TrainOptions) -> int:
    """Return what a model of Newton's method needs; one more where it steps to proximal points."""
    return NEWTON_VECTORS + (not _solver(options).smooth)


def _newton_bytes(manifest: Manifest, options: TrainOptions, width: int) -> int:
    return _newton_vectors(options) * width * weight_bytes(manifest)


def _l1_bytes(manifest: Manifest, options: TrainOptions, width: int) -> int:
    """Return what L1 regularisation needs of all rows, with room for two columns."""
    if not _solver(options).l1:
        return 0
    row_bytes = _L1_ROW_BYTES + width * _L1_MODEL_ROW_BYTES
    row_bytes += 2 * _column_entry_bytes(manifest, options)
    return row_bytes * manifest.n_rows


def _hessian_bytes(manifest: Manifest, width: int) -> int:
    return 8 * (manifest.n_features + 1) ** 2 * width


def _copy_bytes(manifest: Manifest, options: TrainOptions) -> int:
    """Return what a copy of all rows takes; for L1 regularisation, of all columns.

    A working set rarely has more than one row in `WORKING_SET_SHARE`.
    """
    if _solver(options).l1:
        return _column_entry_bytes(manifest, options) * manifest.nnz
    return working_set_bytes(manifest, manifest.n_rows, manifest.nnz)


def _unpacked_bytes(manifest: Manifest, width: int) -> int:
    """Return what rows of the working set take that are unpacked, for all that share a pass.

    That is as much as threads can take, however many there are: no bits depend on them.
    """
    return unpacked_bytes(manifest, len(models_by_pass(width)))


def _column_entry_bytes(manifest: Manifest, options: TrainOptions) -> int:
    return 2 + np.dtype(column_type(manifest, options)).itemsize


def _group_bytes(manifest: Manifest, group: int, width: int) -> int:
    """Return the bytes that the `group` largest blocks take, two buffers unless one holds all."""
    loaded_row_bytes = _LOADED_ROW_BYTES + manifest.weighted * _WEIGHT_BYTES

    def loaded(block: BlockRecord) -> int:
        return entry_bytes(manifest) * block.nnz + loaded_row_bytes * block.rows

    largest = sorted(manifest.blocks, key=loaded, reverse=True)[:group]
    buffers = 1 if group >= len(manifest.blocks) else 2
    in_buffers = buffers * sum(map(loaded, largest))
    stored = max((block.bytes for block in largest), default=0)
    reading = (min(group, DECODED_AT_ONCE) + 1) * stored  # one is read ahead
    row_bytes = _SOLVED_ROW_BYTES + _MODEL_ROW_BYTES * (width - 1)
    return in_buffers + row_bytes * sum(block.rows for block in largest) + reading


def _largest_group(manifest: Manifest, width: int, spare_bytes: int) -> int:
    n_blocks = len(manifest.blocks)
    if _group_bytes(manifest, n_blocks, width) <= spare_bytes:
        return n_blocks
    smaller = range(1, n_blocks)
    return bisect_right(smaller, spare_bytes, key=lambda g: _group_bytes(manifest, g, width))
