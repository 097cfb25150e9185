"""Memory for text on its way."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from blocklinear.pages import ByteBudget, Pages


@pytest.mark.parametrize("n_bytes", [0, 1, 4096, 5000, 1 << 20])
def test_pages_hold_what_is_written_until_they_are_discarded(n_bytes):
    pages = Pages(n_bytes)
    assert len(pages.array) == n_bytes
    assert not pages.array.any()
    pages.array[:] = 7
    part = pages.array[n_bytes // 2 :]
    assert np.all(part == 7)
    pages.discard()
    assert not part.any()
    pages.array[:] = 9  # it can be used again
    assert np.all(part == 9)


def test_bytes_are_granted_up_to_the_capacity():
    budget = ByteBudget(100)
    assert budget.acquire(60) == 60
    assert budget.acquire(40) == 40
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(budget.acquire, 30)
        budget.release(40)
        assert waiting.result() == 30
        waiting = pool.submit(budget.acquire, 50, 30)  # 80 are held, and 30 of them given up
        budget.release(60)
        assert waiting.result() == 50


def test_more_than_the_capacity_is_granted_alone():
    budget = ByteBudget(100)
    assert budget.acquire(500) == 500
    assert budget.acquire(700, instead_of=500) == 700
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(budget.acquire, 1)
        assert not waiting.done()
        budget.release(700)
        assert waiting.result() == 1


def test_whoever_waits_is_let_through_when_all_is_over():
    budget = ByteBudget(100)
    budget.acquire(100)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(budget.acquire, 1)
        budget.close()
        assert waiting.result() == 1
