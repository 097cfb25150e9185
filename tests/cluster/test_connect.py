"""What is asked of the workers of a cluster before any work."""

from blocklinear.cluster.connect import budget_of_worker


def test_the_budget_of_a_worker_is_half_of_what_dask_keeps_it_to(cluster, monkeypatch):
    worker, other = cluster.cluster.workers.values()
    monkeypatch.setattr(worker.memory_manager, "memory_limit", 512 << 20)
    assert budget_of_worker(cluster) == 256 << 20
    monkeypatch.setattr(other.memory_manager, "memory_limit", 384 << 20)
    assert budget_of_worker(cluster) == 192 << 20
