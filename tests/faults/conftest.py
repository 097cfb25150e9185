from dataclasses import dataclass
from pathlib import Path

import pytest

from blocklinear.cli.main import main

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Outcome:
    """What a command did: its exit code, its streams, and the blocks of the store, if any."""

    code: int
    out: str
    err: str
    blocks: dict[str, bytes]


@pytest.fixture
def split(tmp_path, capsys):
    """Split files in a folder of its own; a refused one must leave nothing there."""
    folder = tmp_path / "out"
    folder.mkdir()

    def run(*inputs, code=0, options=()):
        store = folder / f"store{len(list(folder.iterdir()))}"
        before = sorted(folder.iterdir())
        arguments = ["split", *map(str, inputs), str(store), "--threads", "2", "-q", *options]
        found = main(arguments)
        out, err = capsys.readouterr()
        assert (found, "Traceback" in err) == (code, False), err
        if code:
            assert sorted(folder.iterdir()) == before  # no store, nothing hidden
            assert out == ""
            assert err.startswith("blocklinear: ")
            assert err.count("\n") == 2
            assert err.splitlines()[1].startswith("  fix: ")
        blocks = sorted((store / "blocks").glob("*")) if store.is_dir() else []
        return Outcome(found, out, err, {path.name: path.read_bytes() for path in blocks})

    return run
