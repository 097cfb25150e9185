import json
import os
import sys

import programs
import pytest
from programs import GUARD_S

PROGRAM = """
import sys, time
held = b"x" * (60 << 20)
while time.process_time() < 0.3:
    pass
open(sys.argv[1], "w").close()  # a FIFO: until somebody reads it
print(len(held))
"""


def python(*arguments):
    return [sys.executable, *arguments]


@pytest.fixture
def limited_memory(limits):
    """A function `run` below 64 MiB; the test is skipped, with the reason, where none can be."""
    try:
        with limits.limited(memory="64M", cold=False) as run:
            yield run
    except limits.LimitsUnavailable as reason:
        pytest.skip(str(reason))


def own_groups(limits):
    return list(limits.CGROUPS.glob(f"**/blocklinear-bench-{os.getpid()}-*"))


@pytest.mark.parametrize("shell", [[], ["sh", "-c", '"$@"; true', "sh"]], ids=["alone", "child"])
def test_measures_the_process_tree(limits, shell, monkeypatch, tmp_path):
    fifo, seen, real = tmp_path / "fifo", [], limits.anonymous_bytes
    os.mkfifo(fifo)

    def measure(pid):
        """Let the program end once its memory was seen."""
        found = real(pid)
        if found > 60 << 20 and not seen:
            seen.append(fifo.read_bytes())
        return found

    monkeypatch.setattr(limits, "anonymous_bytes", measure)
    with limits.limited(cold=False) as run:
        result = run([*shell, *python("-c", PROGRAM, fifo)], capture=True, timeout=GUARD_S)
    assert result.returncode == 0
    assert result.stdout == f"{60 << 20}\n"
    assert result.stderr == ""
    assert 60 << 20 < result.peak_anonymous_bytes < 100 << 20
    assert 0.3 <= result.cpu_seconds < result.wall_seconds + 1
    assert (result.oom_kills, result.cold, result.timed_out) == (0, False, False)


def test_reports_status_and_signal(limits):
    with limits.limited(cold=False) as run:
        assert run(python("-c", "raise SystemExit(3)")).returncode == 3
        assert run(["sh", "-c", "kill -15 $$"]).returncode == -15


def test_ends_a_command_that_takes_too_long(limits, tmp_path):
    """Its children too: the FIFO is written to by none, so it would wait for ever."""
    os.mkfifo(tmp_path / "fifo")
    with limits.limited(cold=False) as run:
        result = run(["sh", "-c", 'cat "$0"; true', tmp_path / "fifo"], timeout=1e-9)
    assert result.timed_out
    assert result.returncode == -9


def test_a_missing_command_is_an_error(limits):
    with limits.limited(cold=False) as run, pytest.raises(FileNotFoundError):
        run(["/no/such/command"])


def test_kills_what_exceeds_the_limit_and_cleans_up(limits, limited_memory):
    result = limited_memory(python("-c", "held = b'x' * (200 << 20)"))
    assert result.returncode == -9
    assert result.oom_kills == 1
    assert limited_memory(["true"]).oom_kills == 0
    assert own_groups(limits)


def test_removes_its_groups(limits):
    try:
        with limits.limited(memory="64M", cold=False) as run:
            assert run(["true"]).returncode == 0
            assert own_groups(limits)
    except limits.LimitsUnavailable as reason:
        pytest.skip(str(reason))
    assert not own_groups(limits)


def test_says_why_there_is_no_limit(limits, monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "CGROUPS", tmp_path)
    for options, controller in (({"memory": "64M"}, "memory"), ({"read_bps": "1M"}, "io")):
        with (
            pytest.raises(limits.LimitsUnavailable, match=f"no {controller} controller"),
            limits.limited(**options, disk_of=__file__),
        ):
            pass


def test_settings_of_version_2(limits, monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "CGROUPS", tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpu memory io\n")
    group = limits._memory_group(64 << 20)
    assert (group / "memory.max").read_text() == str(64 << 20)
    assert limits._disk_group(1000, "254:0", [group]) == group
    assert (group / "io.max").read_text() == "254:0 rbps=1000"


@pytest.mark.parametrize(("text", "size"), [("256M", 256 << 20), ("1.5g", 3 << 29), (4096, 4096)])
def test_sizes_of_limits(limits, text, size):
    assert limits.parse_limit(text) == size


@pytest.mark.parametrize("text", ["", "much", "0", "-1M"])
def test_bad_sizes_are_refused(limits, text):
    with pytest.raises(ValueError, match="is not a size"):
        limits.parse_limit(text)


def test_command_line_passes_the_status_on(limits):
    ends = python("-c", "print('out'); raise SystemExit(3)")
    ran = programs.run(python(limits.__file__, "--warm", "--", *ends))
    assert ran.returncode == 3
    assert ran.stdout == "out\n"
    assert json.loads(ran.stderr)["returncode"] == 3
