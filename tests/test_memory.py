import contextlib
import os
import re
import sys
from pathlib import Path

import programs
import pytest

from blocklinear import memory
from blocklinear.errors import UsageError

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


SIZES = sorted(
    {max(1, (1 << bits) * k // 1000 + d) for bits in range(0, 62, 3)
     for k in (1, 999, 1000, 1001, 1023) for d in (-1, 0, 1)}
    | {999_500 << 10, 1_047_552 << 10, 1_069_547_520, 1_073_000_000, 1020 << 20, 1023 << 20}
)  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_a_size_that_is_shown_can_be_given(size):
    """1020 MiB was shown as 1.02e+03M."""
    shown = memory.format_size(size)
    assert re.fullmatch(r"[0-9.]+[BKMGT]", shown)
    back = memory.parse_size(shown)
    assert back == pytest.approx(size, rel=0.005)
    assert memory.format_size(back) == shown
    assert memory.parse_size(memory.exact_size(size)) == size
    advised = memory.parse_size(memory.enough(size))
    assert size <= advised < size + (1 << 20)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1), ("512M", 512 << 20), ("4G", 4 << 30), ("1.5GiB", 3 << 29), ("1.5gb", 3 << 29),
        ("0.5K", 512), ("12B", 12), (" 2 T ", 2 << 40), ("9007199254740993", 2**53 + 1),
        ("9223372036854775807", 2**63 - 1), ("0000000001M", 1 << 20),
    ],
)  # fmt: skip
def test_sizes_are_read_exactly(text, size):
    assert memory.parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "0", "0.4", "-1", "M", "1.M", ".5M", "1e3M", "1_000", "\u0661M", "1M B", "nan", "inf",
     "1" + "0" * 30, "9223372036854775808", "8388608T", "1" * 309, "1" * 400 + "G", "9" * 5000,
     "0." + "1" * 5000],
)  # fmt: skip
def test_what_is_no_size(text):
    with pytest.raises(UsageError, match="is not a number of bytes from 1 to 2") as caught:
        memory.parse_size(text)
    assert len(str(caught.value)) < 200
