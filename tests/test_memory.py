import contextlib
import os
import sys
from pathlib import Path

import programs
import pytest

from blocklinear import memory

NO_LIMIT = 0x7FFFFFFFFFFFF000
BUDGET = "from blocklinear.memory import default_budget; print(default_budget())"


def limits_of(folder, membership, files):
    """Return the limits found where the cgroups below `folder` have these files."""
    (folder / "membership").write_text(membership)
    for name, content in files.items():
        path = folder / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return sorted(memory._cgroup_limits(folder / "membership", folder / "cgroup"))


def test_limits_of_parent_cgroups_hold_in_version_2(tmp_path):
    files = {"a/b/c/memory.max": "max", "a/b/memory.max": 300, "a/memory.max": 200}
    assert limits_of(tmp_path, "0::/a/b/c\n", files) == [200, 300]


def test_memory_high_is_a_limit_in_version_2(tmp_path):
    files = {"a/b/memory.max": 300, "a/memory.high": 100, "a/b/memory.high": "max"}
    assert limits_of(tmp_path, "0::/a/b\n", files) == [100, 300]


def test_limits_of_parent_cgroups_hold_in_version_1(tmp_path):
    files = {
        "memory/a/b/memory.limit_in_bytes": NO_LIMIT,
        "memory/a/memory.limit_in_bytes": 200,
        "memory/memory.limit_in_bytes": NO_LIMIT,
    }
    membership = "7:cpu,cpuacct:/other\n6:memory:/a/b\n0::/\n"
    assert limits_of(tmp_path, membership, files) == [200, NO_LIMIT, NO_LIMIT]


def test_a_level_of_version_1_tells_limits_that_cannot_be_seen(tmp_path):
    stat = f"cache 1\nhierarchical_memory_limit 150\nhierarchical_memsw_limit {NO_LIMIT}"
    files = {"memory/memory.limit_in_bytes": NO_LIMIT, "memory/memory.stat": stat}
    assert limits_of(tmp_path, "6:memory:/\n", files) == [150, NO_LIMIT]


def test_a_group_of_the_host_is_not_looked_for_in_a_container(tmp_path):
    assert limits_of(tmp_path, "0::/docker/abc\n", {"memory.max": 400}) == [400]


def test_no_cgroups_no_limits(tmp_path):
    missing = tmp_path / "missing"
    assert list(memory._cgroup_limits(missing, missing)) == []


@pytest.fixture
def inner_group():
    """A cgroup of version 1 without a limit of its own, in one of 96 MiB."""
    outer = Path(f"/sys/fs/cgroup/memory/blocklinear-test-{os.getpid()}")
    inner = outer / "inner"
    try:
        inner.mkdir(parents=True)
        (outer / "memory.limit_in_bytes").write_text("96M")
        yield inner
    except OSError as reason:
        pytest.skip(f"no cgroup can be made: {reason}")
    finally:
        for group in (inner, outer):
            with contextlib.suppress(OSError):
                group.rmdir()


def test_the_default_budget_keeps_to_the_limit_of_a_parent_cgroup(inner_group):
    def join():
        (inner_group / "cgroup.procs").write_text(str(os.getpid()))

    command = [sys.executable, "-c", BUDGET]
    printed = programs.run(command, preexec_fn=join, check=True)
    assert int(printed.stdout) <= 96 << 20


def test_the_default_budget_is_that_of_the_machine_not_of_the_moment(monkeypatch):
    """It was half of what other processes left: the same command gave another model each time."""
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 500_001}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    monkeypatch.setattr(memory, "_cgroup_limits", list)
    monkeypatch.setattr(Path, "read_text", lambda path: pytest.fail(f"{path} is of the moment"))
    assert memory.default_budget() == 500_001 * 4096 // 2 >> 20 << 20
    monkeypatch.setattr(memory, "_cgroup_limits", lambda: [300 << 20, 101 << 20])
    assert memory.default_budget() == 50 << 20
    monkeypatch.setattr(memory, "_cgroup_limits", lambda: [0])
    assert memory.default_budget() == 1 << 20


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [(1 << 20, "1M"), (1000, "1000"), (1536, "1536"), (2048, "2K"), (3 << 29, "1536M"),
     (5 << 40, "5T"), (1 << 50, "1024T")],
)  # fmt: skip
def test_a_size_is_printed_so_that_it_can_be_given_again(n_bytes, text):
    assert memory.exact_size(n_bytes) == text
    assert memory.parse_size(text) == n_bytes
