"""Blocks on disk: made once by `split`, checked at every read."""

from blocklinear.store.manifest import Manifest
from blocklinear.store.records import BlockRecord
from blocklinear.store.store import BlockStore, VerifyReport

__all__ = ["BlockRecord", "BlockStore", "Manifest", "VerifyReport"]
