"""What splitting takes in memory, where the system counts it and kills whoever takes more."""

import sys

import pytest

SPLIT = [sys.executable, "-m", "blocklinear", "split"]


def long_lines(path):
    """Two lines of 26 MB with as many entries as there can be, among short ones."""
    entries, n = [], 0
    while n < 26_000_000:
        entries.append(b" %d:1" % (len(entries) + 1))
        n += len(entries[-1])
    line, short = b"1" + b"".join(entries) + b"\n", b"-1 3:0.5 8:2\n1\n" * 150_000
    path.write_bytes(short + line + short + line + short)
    return 900_002


def many_labels(path):
    """A million and a half rows, each with a label of its own, and nothing else."""
    path.write_bytes(b"".join(b"%d\n" % k for k in range(1_500_000)))
    return 1_500_000


@pytest.fixture
def below_224m(limits):
    """A function `run` below 224 MiB; the test is skipped, with the reason, where none can be."""
    try:
        with limits.limited(memory="224M", cold=False) as run:
            yield run
    except limits.LimitsUnavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("write", [long_lines, many_labels])
def test_splitting_keeps_to_its_memory(tmp_path, limits, below_224m, write):
    (tmp_path / "few.svm").write_bytes(b"1 1:1\n")
    with limits.limited(cold=False) as run:  # kernels are compiled where there is memory for it
        run([*SPLIT, tmp_path / "few.svm", tmp_path / "few", "-q"], capture=True)
    rows = write(tmp_path / "rows.svm")
    command = [*SPLIT, tmp_path / "rows.svm", tmp_path / "store", "--memory", "224M", "-q"]
    done = below_224m(command, capture=True)
    assert (done.returncode, done.oom_kills) == (0, 0), done.stderr
    assert done.stdout.startswith(f"{rows} rows")
