"""Pages of values, each after its length."""

import numpy as np

from blocklinear.kernels.text import pages as kernels


def test_the_longest_value_of_a_page():
    def page(*lengths):
        data = b"".join(n.to_bytes(4, "little") + b"x" * n for n in lengths)
        return np.frombuffer(data, np.uint8)

    assert kernels.longest_of(page()) == 0
    assert kernels.longest_of(page(3, 70_000, 0, 300)) == 70_000
    assert kernels.longest_of(page(3, 5)[:-1]) == -1
    assert kernels.longest_of(np.frombuffer(b"\xff\xff\xff\xffx", np.uint8)) == -1
