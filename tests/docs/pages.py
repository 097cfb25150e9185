"""The Markdown pages of the project, the fenced blocks in them, and the files that they work on."""

import gzip
import random
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in [
        ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    if path.exists()
]  # fmt: skip
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]
COMMANDS = ("bash", "python")
_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^>\n]+) -->\n\n?)?"
    r"(?:^<!-- needs module: (?P<module>\w+) -->\n\n?)?"
    r"^```(?P<language>[a-z]*)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_VARY = "<!-- numbers vary -->"
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?\*?")
_FILES = re.compile(r"<!-- files: (.*?) -->", re.DOTALL)
_NEEDS = re.compile(r"<!-- needs: (.*?) -->")


@dataclass(frozen=True)
class Block:
    """A fenced block; `shown` is the output that the page shows right below it.

    With `<!-- numbers vary -->` between the two, as times do, any number stands for any other.
    """

    language: str
    text: str
    line: int
    reason: str | None
    shown: str | None = None
    numbers_vary: bool = False
    module: str | None = None


def read(name):
    """Return the text of a page."""
    return (ROOT / name).read_text()


def blocks_of(text):
    """Return the blocks of a page in order. A `text` block right below a command is its output."""
    found = list(_BLOCK.finditer(text))
    blocks = []
    for match, after in pairwise([*found, None]):
        shown, between = None, ""
        if match["language"] in COMMANDS and after and after["language"] == "text":
            between = text[match.end() : after.start()].strip()
            shown = after["text"] if between in ("", _VARY) else None
        line, vary = text.count("\n", 0, match.start()) + 1, between == _VARY
        how = match["language"], match["text"], line, match["reason"], shown, vary
        blocks.append(Block(*how, match["module"]))
    return blocks


def files_of(text):
    """Return the names of the files that a page works on."""
    return [name for match in _FILES.finditer(text) for name in match[1].split()]


def needs_of(text):
    """Return the programs that a page uses and that need not be there."""
    return [name for match in _NEEDS.finditer(text) for name in match[1].split()]


def matches(shown, printed, numbers_vary=False):
    """Say whether some lines of what was printed are those shown; `...` is any text.

    A line of nothing but `...` is any number of lines.
    """
    parts = []
    for line in shown.splitlines():
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            pieces = line.rstrip().split("...")
            parts.append(
                r"[^\n]*".join(_pattern(piece, numbers_vary) for piece in pieces) + r" *\n"
            )
    return re.search("^" + "".join(parts), printed, re.MULTILINE) is not None


def _pattern(piece, numbers_vary):
    """Return the pattern of a piece of a line; with any number in place of each, if they vary."""
    if not numbers_vary:
        return re.escape(piece)
    words = [_NUMBER.sub("0", word) for word in re.split(r"(\s+)", piece)]
    escaped = [r"\s+" if word.isspace() else re.escape(word) for word in words if word]
    return "".join(escaped).replace("0", _NUMBER.pattern)


def make_file(name, folder):
    """Write a file of generated rows; its name says what is in it."""
    kind = name.partition(".")[0].partition("-")[0]
    if name.endswith(".weights"):
        lines = [f"{1 + row % 3}" for row in range(240)]
    elif name.endswith(".vw"):
        lines = [_vw(line) for line in _rows(random.Random(name), 240, 2)]
    else:
        n_classes = {"topics": 4, "prices": 0, "clicks": 2}.get(kind, 2)
        lines = _rows(random.Random(name), 240, n_classes)
    raw = "".join(line + "\n" for line in lines).encode()
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(raw, mtime=0) if name.endswith(".gz") else raw)


def _rows(draw, n_rows, n_classes):
    for _ in range(n_rows):
        values = {draw.randrange(1, 31): round(draw.random(), 3) for _ in range(8)}
        score = sum(value * ((3 * index) % 7 - 3) for index, value in values.items())
        label = f"{score + draw.gauss(0, 0.3):.3f}"
        if n_classes == 2:
            label = "+1" if float(label) > 0 else "-1"
        elif n_classes:
            scores = [
                sum(v * (i % n_classes == k) for i, v in values.items()) for k in range(n_classes)
            ]
            label = str(1 + scores.index(max(scores)))
        yield f"{label} " + " ".join(f"{index}:{value}" for index, value in sorted(values.items()))


def _vw(line):
    label, *entries = line.split()
    return f"{label} |f " + " ".join(entries)
