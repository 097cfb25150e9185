"""Every command that README.md and the pages of docs/ show is run, and what they print is shown.

The commands of a page run in order, in one folder, on `tests/data` and on the files that
its comment `<!-- files: ... -->` names. `<!-- not run: REASON -->` stands before the few that
cannot run here.
"""

import importlib.util
import os
import re
import shutil
import sys

import programs
import pytest

from .forked import run_python
from .pages import COMMANDS, NAMES, ROOT, blocks_of, files_of, make_file, matches, needs_of, read

MOST_NOT_RUN = 12
_BASH = "set -eu\n"


def commands_of(name):
    return [block for block in blocks_of(read(name)) if block.language in COMMANDS]


WITH_COMMANDS = [name for name in NAMES if any(not b.reason for b in commands_of(name))]


@pytest.fixture
def folder(tmp_path, starter):
    (tmp_path / "bin").mkdir()
    starter.write_program(tmp_path / "bin" / "blocklinear")
    work = tmp_path / "work"
    work.mkdir()
    (work / "tests").symlink_to(ROOT / "tests")
    return work


def run(block, folder):
    """Run a block; return its exit status and all that it printed."""
    printed = folder.parent / "printed"
    if block.language == "python" and "dask" not in block.text:  # whose processes run it, too
        return run_python(block.text, folder, printed), programs.said(printed.read_bytes())
    command = ["bash", "-c", _BASH + block.text]
    if block.language == "python":
        command = [sys.executable, "-c", block.text]
    environment = os.environ | {
        "PATH": f"{folder.parent / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    with printed.open("wb") as stream:
        done = programs.run(command, cwd=folder, env=environment, stdout=stream, stderr=stream)
    return done.returncode, programs.said(printed.read_bytes())


@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_commands_run_and_print_what_is_shown(name, folder):
    text = read(name)
    for needed in needs_of(text):
        if shutil.which(needed) is None and not os.environ.get("BLOCKLINEAR_REQUIRE_LIBLINEAR"):
            pytest.skip(f"needs {needed}")
    for made in files_of(text):
        make_file(made, folder)
    for block in commands_of(name):
        if block.reason or (block.module and importlib.util.find_spec(block.module) is None):
            continue
        status, printed = run(block, folder)
        assert status == 0, f"{name}:{block.line}\n{block.text}\n{printed}"
        if block.shown is not None:
            same = matches(block.shown, printed, block.numbers_vary)
            assert same, f"{name}:{block.line} prints\n{printed}"


def test_few_commands_are_not_run():
    left_out = [block.reason for name in NAMES for block in commands_of(name) if block.reason]
    assert len(left_out) <= MOST_NOT_RUN, left_out


@pytest.mark.parametrize("name", NAMES)
def test_blocks_name_their_language(name):
    """Else a command would not be seen as one."""
    for block in blocks_of(read(name)):
        assert block.language, f"{name}:{block.line}"
        command = re.match(r"\s*(\$ |blocklinear [a-z])", block.text)
        assert block.language in COMMANDS or not command, f"{name}:{block.line} is a command"


def test_blocks_and_their_output_are_found():
    text = (
        "a\n\n```bash\ntrue\n```\n\n```text\nyes\n```\n\nb\n\n```text\nno\n```\n\n"
        "<!-- not run: a reason -->\n```bash\nfalse\n```\n\n<!-- files: x.svm y.svm -->\n"
    )
    first, shown, other, second = blocks_of(text)
    assert (first.text, first.shown, first.line, first.reason) == ("true\n", "yes\n", 3, None)
    assert (shown.language, other.language) == ("text", "text")
    assert (second.text, second.reason, second.shown) == ("false\n", "a reason", None)
    assert files_of(text) == ["x.svm", "y.svm"]
    (needy,) = blocks_of("<!-- needs module: numpy -->\n\n```python\npass\n```\n")
    assert (needy.module, needy.text, first.module) == ("numpy", "pass\n", None)
    (varying, _) = blocks_of("```bash\ndate\n```\n<!-- numbers vary -->\n\n```text\n12:30\n```\n")
    assert (varying.shown, varying.numbers_vary) == ("12:30\n", True)


def test_what_is_shown_is_compared():
    printed = "one\ntwo 2.5\nthree\nfour\n"
    for shown in ("two 2.5\n", "one\ntwo ...\n", "one\n...\nfour\n", "...\nthree\n"):
        assert matches(shown, printed), shown
    for shown in ("two\n", "one\nthree\n", "two 2.5\none\n", "one\n...\nfive\n", "wo 2.5\n"):
        assert not matches(shown, printed), shown
    printed = "outer   seconds\n    1      0.25  1.5e-03* -7\ngap 0.001 after 3\n"
    for shown in ("outer  seconds\n    1     17.0  2e+01 3\n", "gap 0.0007 after 12\n"):
        assert matches(shown, printed, numbers_vary=True), shown
        assert not matches(shown, printed), shown
    for shown in ("outer\n", "gap 0.001 after three\n", "    1   0.25  1.5e-03 - 7\n"):
        assert not matches(shown, printed, numbers_vary=True), shown
