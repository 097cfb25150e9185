"""A process killed while it changes a store leaves one that is whole; see kills.py."""

import json
import sys
from pathlib import Path

import programs


def test_kills_at_any_moment():
    program = Path(__file__).with_name("kills.py")
    done = programs.run([sys.executable, program, "--random", 2, "--every", 4])
    assert done.returncode == 0, done.stderr
    kills = json.loads(done.stdout)
    assert set(kills) == {
        "add",
        "remove",
        "gc",
        "compact",
        "transpose",
        "split",
        "split one by one",
    }
    assert sum(found["at operations"] for found in kills.values()) >= 60
