"""Words that a reader would have to learn first: the field has others, which are used instead."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
INSTEAD = {
    r"visit(s|ed|ing)?": "block step",
    r"sweep(s|ing)?|swept": "pass over the working set",
    r"active (rows?|entries)|active_(rows?|entries)": "working set",
    r"resting": "at bound",
    r"near (rows?)|near_(rows?)": "margin rows",
    r"settle[sd]?|settling|unsettled": "solve the working set to tolerance",
    r"tally|tallies|foretold|foreseen|oftener": "pass statistics, predicted gap, more often",
    r"let go|parted": "drop converged models; separated",
    r"sights?": "row view",
    r"roles?": "targets and costs",
    r"leaps?|leapt": "extrapolation step",
    r"stretch(es)?": "row range",
    r"restless|dealing|dealt": "distributed",
    r"beside": "text_store, next to",
    r"intake": "ingest",
    r"weighing": "weight_stats",
    r"tells? apart|told": "distinguish; shown, reported, called with",
    r"touche[sd]": "updated, worked on",
    r"reads? over": "skip",
}
NOT_YET: set[str] = set()
"""What has such words still: whoever replaces the last one takes it out, and nobody adds."""
PATTERN = re.compile("|".join(rf"(?<![a-z])(?:{word})(?![a-z])" for word in INSTEAD), re.IGNORECASE)


def places():
    """Yield each package, module at the top and page, with its files."""
    for path in sorted(ROOT.glob("blocklinear/*")):
        if path.is_dir() and path.name != "__pycache__":
            yield path.name, sorted(path.rglob("*.py"))
        elif path.suffix == ".py":
            yield path.name, [path]
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]:
        yield str(path.relative_to(ROOT)), [path]


def found(path):
    """Return the lines with such a word, but for imports, whose names are of other places."""
    lines = enumerate(path.read_text().splitlines(), 1)
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for number, line in lines
        if PATTERN.search(line) and not line.lstrip().startswith(("from ", "import "))
    ]


@pytest.mark.parametrize(
    ("name", "files"), list(places()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_words_of_the_field(name, files):
    lines = [line for path in files for line in found(path)]
    assert not lines or name in NOT_YET


def test_the_pattern_finds_words_and_no_others():
    for text in ("a visit", "self.visits", "Visits:", "active_entries", "are told apart", "_sight"):
        assert PATTERN.search(text), text
    for text in ("path.touch()", "controls", "spanning", "insight", "together", "interactive row"):
        assert not PATTERN.search(text), text
