"""Lines of LIBSVM text that a reader may trip over, made from a seed."""

import random
import string

JUNK = "\x00\x0b\x0c\x1b\x7f\xa0\xe9#:+-.eExX,_|\r\t 09"
SPECIAL = (
    "0", "-0", "+0", "0.0", "00", "0e400", "-0e-400", ".0e5", "+1", "1.", ".5", "-.5", "5.e3",
    "1e22", "1e23", "-1e22", "123456789e15", "9007199254740993", "9007199254740992",
    "9007199254740991.5", "9007199254740993e0", "90071992547409930e-1", "18014398509481985",
    "9223372036854775807", "9223372036854775808", "18446744073709551616", "900000000000000000",
    "899999999999999999", "9000000000000000009", "5e-324", "4.9e-324", "2.4703282292062328e-324",
    "2.4703282292062327e-324", "2e-324", "3e-324", "1e-323", "1e-400", "-1e-324", "1e-99999999999",
    "2.2250738585072014e-308", "2.2250738585072011e-308", "9.99e153", "1e154", "1e153", "0.1e155",
    "0.1e154", "10e153", "9" * 154, "1" + "0" * 154, "0." + "0" * 330 + "1", "0." + "0" * 30 + "1",
    "1e250", "1e400", "1e-250", "1e-251", "123456789012345678e-250", "0" * 50 + "1", "1e0000000022",
    "1e+5", "1e-05", "1" * 400 + "e-380", "0.1", "0.3", "3.141592653589793", "1e-22", "1e-23",
    "4503599627370496.5", "4503599627370497.5", "4503599627370497.50000000000000000000000000001",
    "1.00000000000000011102230246251565404236316680908203125",
    "1.00000000000000011102230246251565404236316680908203124",
    "1.00000000000000011102230246251565404236316680908203126",
    "9.999999999999999999e+00", "-9.223372036854775808e-01", "9.876543210987654321e+18",
    "1.234567890e+01", "1.234567890e+09", "1.234567890e+10", "00000009.00000000001e-99",
    "", "+", "-", ".", "e5", "1e", "1e+", "1e-", "--1", "+-1", "1.2.3", "nan", "inf", "-inf",
    "0x10", "1_000", "1,5", "Infinity", "1e5.5", "1:2", "1d5",
    "-e+05", ".e-05", "1.23456789e+-5", "1.23456789e-0:", "1.23456789e_05", "1.2345e-056",
)  # fmt: skip
N_GOOD = SPECIAL.index("")


def _digits(rng: random.Random, low: int, high: int) -> str:
    return "".join(rng.choices(string.digits, k=rng.randint(low, high)))


def number(rng: random.Random) -> str:
    kind = rng.randrange(9)
    sign = rng.choice(("", "", "", "-", "+"))
    if kind == 0:
        return rng.choice(SPECIAL[:N_GOOD] if rng.random() < 0.95 else SPECIAL)
    if kind == 1:
        return sign + _digits(rng, 17, 25)
    if kind == 2:
        return sign + _digits(rng, 0, rng.choice((2, 9, 20))) + "." + _digits(rng, 0, 25)
    if kind == 3:
        exponent = rng.choice(("e", "E")) + rng.choice(("", "+", "-")) + _digits(rng, 1, 2)
        return sign + _digits(rng, 1, 19) + exponent
    if kind == 4:  # over the whole range of exponents
        exponent = rng.randint(-345, 160)
        return f"{sign}{_digits(rng, 1, 3)}.{_digits(rng, 0, 18)}e{exponent}"
    if kind == 5:  # half way between two doubles, and a digit beside it
        low = rng.getrandbits(52) | 1 << 52
        shift = rng.randint(0, 40)
        return sign + str(((2 * low + 1) << shift) + rng.choice((0, 0, -1, 1)))
    if kind == 6:
        return repr(rng.uniform(-1, 1))
    if kind == 7:
        style = rng.choice((f".{rng.randint(0, 6)}g", ".16g", f".{rng.randint(0, 19)}e"))
        return format(rng.lognormvariate(0, rng.choice((1, 30))), style)
    return sign + str(rng.randint(0, 1000))


def line(rng: random.Random) -> bytes:
    """One line without its newline; about one in four is refused."""
    blanks = (" ", " ", " ", " ", "\t", "  ", " \t ")
    index = rng.choice((0, 0, 0, 0, 0, 100, 4294967290)) - (rng.random() < 0.02)
    parts = [rng.choice(("", "", "", " ", "\t")), rng.choice(("1", "-1", "+1", number(rng)))]
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5))):
        index += 0 if rng.random() < 0.005 else rng.choice((1, 1, 2, 7))
        zeros = "00" if rng.random() < 0.05 else ""
        parts += [rng.choice(blanks), f"{zeros}{index}:{number(rng)}"]
    text = "".join(parts) + rng.choice(("", "", "", " ", "\t \t"))
    if rng.random() < 0.05:
        text += rng.choice(("# a comment", "#1:2", " #", "#\x00\xe9", "# lone\rreturn"))
    if rng.random() < 0.03:
        text = rng.choice(("", " ", "#", "# 1 1:1", "\t\t"))
    if rng.random() < 0.15:
        p = rng.randint(0, len(text))
        text = text[:p] + rng.choice(JUNK) + text[p + rng.randint(0, 1) :]
    if rng.random() < 0.1:
        text += "\r"
    return text.encode("latin-1", "replace")
