"""Training on some of the blocks (sub-sampling; Yu, 7.1)."""

import dataclasses

import numpy as np

from blocklinear.options import TrainOptions
from blocklinear.store.manifest import Manifest
from blocklinear.training.schedule import block_order


def sampled(manifest: Manifest, options: TrainOptions) -> Manifest:
    """Return the manifest of as many blocks, drawn at random, as the options ask for.

    The order in which blocks stand in the manifest is kept.
    """
    if options.sample_blocks is None or options.sample_blocks >= len(manifest.blocks):
        return manifest
    drawn = block_order(options.seed, 0, len(manifest.blocks))[: options.sample_blocks]
    blocks = [manifest.blocks[k] for k in np.sort(drawn).tolist()]
    return dataclasses.replace(
        manifest,
        blocks=blocks,
        n_rows=sum(block.rows for block in blocks),
        nnz=sum(block.nnz for block in blocks),
    )
