"""Memory in whole pages from the system."""

import mmap
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from blocklinear.pages import ByteBudget, Pages, give_back


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


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere numbers may stay")
def test_pages_within_an_array_are_given_back_and_no_others():
    page = mmap.PAGESIZE // 8
    numbers = Pages(8 * 10 * page, large=True).array.view(np.float64)
    numbers[:] = 7.0
    give_back(numbers.reshape(10, page)[2:].reshape(-1)[5:-5])
    assert np.all(numbers[: 3 * page] == 7.0)
    assert not numbers[3 * page : 9 * page].any()
    assert np.all(numbers[9 * page :] == 7.0)
    numbers[:] = 8.0  # they can be used again
    give_back(numbers[1 : page + 1])  # no page lies within
    assert np.all(numbers == 8.0)
    others = np.full(4 * page, 9.0)
    give_back(others)  # of memory that is not in pages of its own nothing is
    assert np.all(others == 9.0)


def advised(address):
    """Return what the system was told of the memory at an address."""
    here = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *words = line.split()
        if not first.endswith(":"):
            start, stop = (int(number, 16) for number in first.split("-"))
            here = start <= address < stop
        elif here and first == "VmFlags:":
            return words
    raise AssertionError(f"nothing is mapped at {address:x}")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells of the memory of a process so")
def test_large_pages_are_asked_for_where_there_is_room_for_some():
    size = 8 << 20
    small, large = Pages(size), Pages(size, large=True)
    if Path("/sys/kernel/mm/transparent_hugepage").exists():
        assert "hg" in advised(large.array.ctypes.data)
        assert "hg" not in advised(small.array.ctypes.data)
    assert "hg" not in advised(Pages(4096, large=True).array.ctypes.data)
    large.array[:] = 3
    assert large.array.sum() == 3 * size


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells of the memory of a process so")
def test_commands_have_numpy_ask_for_no_large_pages():
    program = (
        "from blocklinear.cli.compiling import start_lightly\n"
        "start_lightly()\n"
        "import numpy as np\n"
        "from test_pages import advised\n"
        "array = np.empty(1 << 21)\n"
        "print('hg' in advised(array.ctypes.data + array.nbytes // 2))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=Path(__file__).parent
    )
    assert found.stdout == "False\n"


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


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="no THP here")
def test_sparse_memory_has_no_large_pages():
    """Where the system gives these to all, a byte that is written to would take 2 MiB."""
    advised = []
    for sparse in (True, False):
        pages = Pages(64 << 20, sparse=sparse)
        start = f"{pages.array.ctypes.data:x}-"
        text = Path("/proc/self/smaps").read_text()
        of_it = text[text.index(f"\n{start}") :]
        flags = of_it[of_it.index("VmFlags:") :].partition("\n")[0].split()
        advised.append("nh" in flags)
    assert advised == [True, False]
