import pytest
from training.small import long_problem, split_problem

from blocklinear.store.prefetch import GroupLoader


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return split_problem(tmp_path_factory.mktemp("rows"), long_problem(), 6)


@pytest.fixture
def groups(store):
    """Load groups of any blocks, one at a time."""
    with GroupLoader(store, len(store.manifest.blocks) - 1, 1) as loader:
        yield lambda *blocks: next(iter(loader.stream([blocks]))).group
