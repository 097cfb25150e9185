from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklinear.text.slabs import LongLine, slabs

BOM = b"\xef\xbb\xbf"


class Chunks:
    """A source that gives what it holds in pieces of at most `step` bytes."""

    def __init__(self, content, step=7):
        self.content, self.step = content, step

    def readinto(self, buffer):
        part = self.content[: min(self.step, len(buffer))]
        self.content = self.content[len(part) :]
        buffer[: len(part)] = part
        return len(part)


def cut(content, slab_bytes, max_line_bytes=1000, step=7):
    pieces = list(slabs(Chunks(content, step), slab_bytes, max_line_bytes))
    for piece in pieces:
        assert piece.text[-2:].tobytes() == b"\n\n"  # whole lines and the guard
    return [piece.text[:-1].tobytes() for piece in pieces], [piece.cut for piece in pieces]


@given(
    st.lists(st.text("ab", max_size=12)),
    st.integers(1, 40),
    st.integers(1, 50),
    st.sampled_from("\n "),
)
@settings(deadline=None)
def test_slabs_are_the_text_cut_at_newlines(lines, slab_bytes, step, end):
    content = ("\n".join(lines) + end).encode()
    pieces, cuts = cut(content, slab_bytes, step=step)
    whole = content if end == "\n" else content + b"\n"
    assert b"".join(pieces) == whole
    assert cuts == [False] * (len(cuts) - 1) + [end != "\n"]
    for piece in pieces:
        assert len(piece) <= max(slab_bytes, 2 * 12)  # twice the longest line


def test_an_empty_source_has_no_slabs():
    assert cut(b"", 10) == ([], [])
    assert cut(BOM, 10) == ([], [])


@pytest.mark.parametrize("slab_bytes", [1, 2, 3, 4, 5, 20, 100])
def test_one_mark_at_the_start_is_dropped(slab_bytes):
    pieces, _ = cut(BOM + b"1 1:1 2:2\n" + BOM + b"1\n", slab_bytes)
    assert b"".join(pieces) == b"1 1:1 2:2\n" + BOM + b"1\n"
    pieces, _ = cut(BOM + BOM + b"1 1:1 2:2\n", slab_bytes)
    assert b"".join(pieces) == BOM + b"1 1:1 2:2\n"
    pieces, _ = cut(BOM[:2] + b"\n", slab_bytes)
    assert b"".join(pieces) == BOM[:2] + b"\n"


@pytest.mark.parametrize("end", [b"\n", b"", b"\nx\n"])
@pytest.mark.parametrize("before", [b"", b"x\n", b"yy\n" * 7])
@pytest.mark.parametrize("slab_bytes", [4, 5, 9, 20])
def test_the_bound_of_a_line_is_exact_for_any_slab_size(slab_bytes, before, end):
    pieces, _ = cut(before + b"a" * 20 + end, slab_bytes, 20)
    assert b"".join(pieces).startswith(before + b"a" * 20 + b"\n")
    with pytest.raises(LongLine):
        cut(before + b"a" * 21 + end, slab_bytes, 20)


def test_what_comes_before_a_long_line_is_given_first():
    pieces = slabs(Chunks(b"1\n2\n3\n" + b"a" * 100), 8, 20)
    assert next(pieces).text.tobytes() == b"1\n2\n3\n\n"
    with pytest.raises(LongLine):
        next(pieces)


def test_a_line_longer_than_a_slab_comes_alone_and_is_announced():
    line, told = b"a" * 5000 + b"\n", []
    content = b"1\n2\n" + line + b"3\n4\n" + line[:-1]
    found = list(slabs(Chunks(content, 64), 100, 1 << 20, reserve=told.append))
    assert b"".join(slab.text[:-1].tobytes() for slab in found) == content + b"\n"
    assert [slab.long for slab in found] == [False, True, False, True]
    assert [slab.cut for slab in found] == [False, False, False, True]
    assert len(found[1].text) - 1 == len(line)
    assert max(told) >= 5000  # before that was read
    assert told[0] < 2000  # and no more than needed, long before the end of it is seen


def test_memory_of_slabs_is_used_again_but_for_long_lines():
    spare, lines = deque(), [b"ab\n", b"c" * 50 + b"\n", b"d\n"] * 20
    found = []
    for slab in slabs(Chunks(b"".join(lines)), 10, 100, spare):
        found.append(slab.text[:-1].tobytes())
        if not slab.long:
            spare.append(slab.memory)
    assert b"".join(found) == b"".join(lines)
    assert len(spare) <= 2
    assert {len(pages.array) for pages in spare} == {12}
