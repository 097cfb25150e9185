#!/usr/bin/env python3
"""Write the reference pages that follow from the code: commands and file formats.

Usage: python scripts/reference.py [--check]    (--check: write nothing, fail if a page is stale)
"""

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
MADE = "<!-- Made by scripts/reference.py: do not edit. -->"
LAYERS = [
    ("The manifest", "store/manifest.py", ["Manifest"]),
    ("Records of files", "store/records.py", ["BlockRecord", "ColumnRecord", "FeatureFile"]),
    ("Block files", "store/blocks.py", []),
    ("Chunks", "store/layout.py", []),
    ("Feature files", "store/features.py", []),
    ("Columns", "columns/manifest.py", ["ColumnManifest"]),
    ("Checkpoints", "training/checkpoint.py", []),
    ("Models", "model/native.py", []),
    ("Lists of weights", "model/listing.py", []),
]


COMMANDS = f"""\
# Commands

{MADE}

Options are given by their whole names. Sizes are written `512M`, `4G` or `1.5GiB`.

Results go to standard output, or to standard error if an output file is `-`; progress and warnings
go to standard error. Outputs are checked before the work begins. A file appears whole or not at
all; `-`, `/dev/stdout`, pipes and devices are written to directly. Inputs and the files of a store
are never overwritten. A file that is named `-` is given as `./-`.

| command | does |
|---|---|"""
FORMATS = f"""\
# File formats

{MADE}

Formats are versioned, and every released version can be read by all later ones, but for those of
checkpoints. Files are checked before memory is allocated from what they say.

## A store

```text
STORE/  manifest.json      what the store holds; replacing it is the one commit point
        lock               locked by the process that writes or trains
        blocks/b<k>.blk    rows; never changed, numbers are never used again
        features/f<k>.map  the index in the input of each feature number
        features/n<k>.zst  names of features, if they have any
        recipe.json        how tables become its rows, if they do
        columns/           its entries by feature: a cache, which may be deleted at any time
        skipped.txt        lines or rows that --on-error skip left out
        runs/<name>/       a training run: checkpoint.json, alpha, w and averages
```"""


_HEADS = {"Arguments": "argument"}


def commands_page() -> str:
    """Return the page of commands, from their parsers."""
    sys.path.insert(0, str(ROOT))
    from blocklinear.cli.main import _parser

    parser = _parser()
    (commands,) = [
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    ]
    helps = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    lines = [COMMANDS]
    lines += [f"| [`{name}`](#{name}) | {helps[name]} |" for name in commands.choices]
    for name, command in commands.choices.items():
        lines += ["", f"## {name}", "", *_command(command)]
    return "\n".join(lines) + "\n"


def _command(parser: argparse.ArgumentParser) -> Iterator[str]:
    words = " ".join(_operand(action) for action in parser._positionals._group_actions)
    yield f"`{parser.prog} [OPTION...] {words}`"
    yield ""
    yield _sentence(parser.description or "")
    for group in parser._action_groups:
        actions = [a for a in group._group_actions if not isinstance(a, argparse._HelpAction)]
        if not actions and not group.description:
            continue
        title = {"positional arguments": "Arguments"}.get(group.title or "", group.title or "")
        yield from ("", f"**{title[0].upper() + title[1:]}**")
        yield from _description(group.description or "")
        if actions:
            yield from ("", f"| {_HEADS.get(title, 'option')} | meaning |", "|---|---|")
        for action in actions:
            yield f"| {_names(action)} | {_sentence(_expanded(action))} |"
    yield ""
    epilog = (parser.epilog or "").removeprefix("exit status: ")
    yield f"**Exit status:** {_sentence(epilog)}."


def _description(text: str) -> Iterator[str]:
    """Yield a part of a help text that is no option: paragraphs, and tables as they are."""
    for paragraph in filter(None, text.split("\n\n")):
        table = "\n" in paragraph
        yield from ("", *(["```text", paragraph, "```"] if table else [paragraph]))


def _operand(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest).replace("|", "_OR_")  # a | would end a cell
    return f"{name}{'...' if action.nargs in ('+', argparse.PARSER) else ''}"


def _names(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{_operand(action)}`"
    value = ""
    if action.nargs != 0:
        words = action.metavar or "|".join(map(str, action.choices or [action.dest.upper()]))
        # a | would end the cell of a table
        value = f" {{{str(words).replace('|', ',')}}}" if "|" in words else f" {words}"
        value += " ..." if action.nargs == "+" else ""
    return ", ".join(f"`{name}{value}`" for name in action.option_strings)


def _expanded(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%").replace("|", "\\|")


def _sentence(text: str) -> str:
    """Return text whose options and file names are marked as code."""
    text = re.sub(r"(?<![\w`-])(--[a-z][a-z0-9-]*|-[a-zA-Z])(?![\w`])", r"`\1`", text)
    return re.sub(r"(?<![\w`./-])([A-Z]{2,}[A-Z.]*[a-z./]*[a-z])(?=[ ,;)])", r"`\1`", text)


def formats_page() -> str:
    """Return the page of file formats, from the docstrings of the modules that write them."""
    lines = [FORMATS]
    for title, name, classes in LAYERS:
        tree = ast.parse((ROOT / "blocklinear" / name).read_text())
        lines += ["", f"## {title}", "", *_prose(ast.get_docstring(tree) or "")]
        docstrings = {
            node.name: ast.get_docstring(node) or ""
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        }
        for kind in classes:
            lines += ["", f"### {kind}", "", *_fields(docstrings[kind])]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines).rstrip() + "\n")


def _prose(docstring: str) -> Iterator[str]:
    """Yield a docstring as Markdown: what is indented, and tables, as they are."""
    for part in _paragraphs(docstring):
        if part.startswith((" ", "=")):
            yield from ("```text", inspect.cleandoc(part), "```", "")
        else:
            yield from (re.sub(r"``([^`]+)``", r"`\1`", part.replace("::", ":")), "")


def _paragraphs(docstring: str) -> list[str]:
    """Return the paragraphs of a docstring; indented ones that follow each other are one."""
    found: list[str] = []
    for part in docstring.split("\n\n"):
        if found and part.startswith(" ") and found[-1].startswith(" "):
            found[-1] += "\n\n" + part
        else:
            found.append(part)
    return found


def _fields(docstring: str) -> Iterator[str]:
    """Yield the attributes of a class as a table."""
    summary, _, attributes = docstring.partition("\n\nAttributes\n----------\n")
    yield from (summary, "", "| field | type | meaning |", "|---|---|---|")
    name, kind, meaning = "", "", ""
    for line in [*attributes.splitlines(), "end : "]:
        if not line.startswith(" "):
            if name:
                names = ", ".join(f"`{one}`" for one in name.split(", "))
                text = re.sub(r"``([^`]+)``", r"`\1`", meaning.strip())
                yield f"| {names} | {kind} | {text} |"
            name, _, rest = line.partition(" : ")
            kind, _, meaning = rest.partition("  ")
        else:
            meaning += " " + line.strip()


PAGES = {"cli.md": commands_page, "file-formats.md": formats_page}


def main() -> int:
    """Write the pages, or compare them; return the exit status."""
    stale = [name for name, make in PAGES.items() if _text(FOLDER / name) != make()]
    if "--check" not in sys.argv:
        for name in stale:
            (FOLDER / name).write_text(PAGES[name]())
            print(f"wrote docs/reference/{name}")
        return 0
    for name in stale:
        print(f"docs/reference/{name} is stale: run python scripts/reference.py", file=sys.stderr)
    return 1 if stale else 0


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
