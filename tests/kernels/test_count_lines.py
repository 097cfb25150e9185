"""Counting lines, and those that may hold no row."""

import numpy as np
import pytest

from blocklinear.kernels.text.scan import count_lines


def counted(text, begins):
    lines = text.split(b"\n")
    starts = lines if begins else lines[1:]
    starts = [line + b"\n" for line in starts[:-1]] + [line for line in starts[-1:] if line]
    odd = sum(start[0] <= 35 or start[0] >= 127 for start in starts)
    return text.count(b"\n"), odd, text.endswith(b"\n") if text else begins


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_lines_are_counted(seed, begins):
    rng = np.random.default_rng(seed)
    alphabet = np.frombuffer(b"1:5 a#\t\r\xef\x7f" + b"\n" * int(rng.integers(1, 30)), np.uint8)
    text = rng.choice(alphabet, int(rng.integers(0, 300)))
    found = count_lines(text, begins)
    assert tuple(map(int, found)) == counted(text.tobytes(), begins)
