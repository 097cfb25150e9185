"""LIBSVM text, read line by line with nothing but str, re and float."""

import re

NUMBER = re.compile(r"[+-]?(\d+\.?(\d*)|\.(\d+))([eE][+-]?\d+)?", re.ASCII)
PARTS = re.compile(r"[+-]?(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?", re.ASCII)


class Refused(Exception):
    """The line breaks a rule."""


def number(token: str) -> float:
    if not NUMBER.fullmatch(token):
        raise Refused(f"syntax of {token}")
    whole, fraction, exponent = PARTS.fullmatch(token).groups()
    digits = (whole + fraction).lstrip("0")
    # 0.d1d2d3... times 10**k, with d1 not zero
    k = len(digits) - len(fraction) + int(exponent or 0)
    if digits and k > 154:
        raise Refused(f"magnitude of {token}")
    return float(token) + 0.0  # -0.0 is 0.0


def read_line(line: bytes, base: int = 1) -> tuple[float, list[tuple[int, float]]] | None:
    """Read one line without its newline; None when it holds no row."""
    text = line.decode("latin-1").removesuffix("\r")
    if "\r" in text:
        raise Refused("carriage return")
    tokens = [token for token in re.split("[ \t]", text.split("#", 1)[0]) if token]
    if not tokens:
        return None
    label, previous, row = number(tokens[0]), base - 1, []
    for token in tokens[1:]:
        index, colon, value = token.partition(":")
        if not colon or not re.fullmatch("[0-9]+", index):
            raise Refused(f"index of {token}")
        if not previous < int(index) < 1 << 32:
            raise Refused(f"order or range of {index}")
        previous = int(index)
        row.append((previous, number(value)))
    if sum(value * value for _, value in row) >= 1.5e308:
        raise Refused("size of the row")
    return label, [(i, value) for i, value in row if value != 0]
