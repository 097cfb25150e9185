"""Bars on a terminal, and nothing elsewhere."""

import contextlib
import io
import os
import pty
import termios

import programs
import pytest

from blocklinear.cli.console import Console
from blocklinear.events import BlockProgress, BlockStep, SplitProgress, TextProgress, Warned


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def on_terminal(monkeypatch):
    """Make standard error a terminal; return what holds all that is drawn there."""

    def change():
        made = Terminal()
        monkeypatch.setattr("sys.stderr", made)
        return made

    return change


def test_bars_of_text_and_blocks(on_terminal):
    terminal = on_terminal()
    with Console(False, "check") as console:
        console(TextProgress(1 << 20, 4 << 20, 10))
        console(Warned("odd"))
        console(TextProgress(4 << 20, 4 << 20, 40))
    with Console(False, "verify") as console:
        console(BlockProgress(1, 4))
    with Console(False) as console:
        console(SplitProgress(1 << 20, None, 10, 100))
    drawn = terminal.getvalue()
    for text in ("check:  25%", "1.05M/4.19M", "warning: odd\n", "verify:  25%", "1/4", "split: "):
        assert text in drawn
    assert "\n" not in drawn.replace("warning: odd\n", "")


def test_a_bar_of_block_steps(on_terminal):
    terminal = on_terminal()
    with Console(False) as console:
        for outer in (1, 2):
            for done in (1, 2, 3):
                console(BlockStep(outer, done, 3))
    assert "outer 1: " in terminal.getvalue()
    assert "outer 2: " in terminal.getvalue()


def test_no_bar_for_one_block_step(on_terminal):
    terminal = on_terminal()
    with Console(False) as console:
        console(BlockStep(1, 1, 1))
    assert terminal.getvalue() == ""


EVENTS = [TextProgress(1, 2, 3), BlockProgress(1, 2), BlockStep(1, 1, 2)]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_no_bar_if_quiet_and_none_elsewhere(event, on_terminal, monkeypatch):
    terminal = on_terminal()
    with Console(True) as console:
        console(event)
    assert terminal.getvalue() == ""
    monkeypatch.setattr("sys.stderr", elsewhere := io.StringIO())
    with Console(False) as console:
        console(event)
    assert elsewhere.getvalue() == ""


@pytest.mark.parametrize("command", ["check", "predict", "verify", "compact"])
def test_commands_draw_a_bar_on_a_terminal(command, cli, rows, store, tmp_path):
    """And leave none behind; with -q there is none."""
    assert cli("train", store, tmp_path / "model", "-q").status == 0
    given = {
        "check": [rows], "verify": [store], "compact": [store, "--block-size", "1G"],
        "predict": [rows, tmp_path / "model", tmp_path / "labels"],
    }  # fmt: skip
    for flags in ([], ["-q"]):
        reader, writer = pty.openpty()
        os.set_blocking(reader, False)
        termios.tcsetwinsize(writer, (24, 80))
        done = programs.run([*programs.COMMAND, command, *given[command], *flags], stderr=writer)
        drawn = b""
        with contextlib.suppress(BlockingIOError):
            drawn = os.read(reader, 1 << 16)
        os.close(writer)
        os.close(reader)
        text = programs.said(drawn)
        assert done.returncode == 0
        assert done.stdout or flags
        assert (f"\r{command}: " in text) == (not flags)
        assert text.endswith("\r") == (not flags)
