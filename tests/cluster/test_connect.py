"""What is asked of the workers of a cluster before any work."""

import pytest

import blocklinear
from blocklinear.cluster.connect import budget_of_worker
from blocklinear.errors import ClusterError, UsageError, WrongTypeError


def test_arguments_that_are_no_client_or_no_number_of_parts(tmp_path, cluster, two):
    address = "tcp://scheduler:8786"
    with pytest.raises(WrongTypeError, match="client is str"):
        blocklinear.train(tmp_path / "s", client=address)
    with pytest.raises(WrongTypeError, match="client is str"):
        blocklinear.split(tmp_path / "rows.svm", tmp_path / "s", client=address)
    with pytest.raises(WrongTypeError, match="client is LocalCluster"):
        blocklinear.train(tmp_path / "s", client=cluster.cluster)
    for parts in (0, 1.5, "2"):
        with pytest.raises(UsageError, match=r"parts is .* at least 1"):
            blocklinear.train(tmp_path / "s", client=two, parts=parts)


def test_a_client_that_was_closed_before(tmp_path, two):
    two.status = "closed"
    for function in blocklinear.train, blocklinear.train_grid, blocklinear.cross_validate:
        with pytest.raises(ClusterError, match="the client is closed"):
            function(tmp_path / "s", client=two)
    with pytest.raises(ClusterError, match="the client is closed"):
        blocklinear.split(tmp_path / "rows.svm", tmp_path / "s", client=two)


def test_the_budget_of_a_worker_is_half_of_what_dask_keeps_it_to(cluster, monkeypatch):
    worker, other = cluster.cluster.workers.values()
    monkeypatch.setattr(worker.memory_manager, "memory_limit", 512 << 20)
    assert budget_of_worker(cluster) == 256 << 20
    monkeypatch.setattr(other.memory_manager, "memory_limit", 384 << 20)
    assert budget_of_worker(cluster) == 192 << 20
