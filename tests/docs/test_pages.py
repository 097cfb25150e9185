"""What the pages say of the code is true, and they say it in words that a reader knows."""

import dataclasses
import importlib.util
import re
from pathlib import Path

import pytest

from blocklinear import errors, events
from blocklinear.report.records import NAMES as LINES
from blocklinear.store import manifest
from blocklinear.store.files import LOCK_NAME

from .pages import NAMES, ROOT, read

PRIVATE = re.compile(
    r"\b(visit(s|ed|ing)?|sweeps?|swept|resting|settl(e|es|ed|ing)|touch(es|ed)?|tall(y|ies|ied)"
    r"|foreseen|foretold|told|let go|parted|spans?|sight|roles?|leaps?|stretch(es)?|beside|intake"
    r"|origins?|weighing|near rows|restless|reads? over|unpacks?)\b",
    re.IGNORECASE,
)


def reference():
    """Return the script that writes reference pages."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["cli.md", "file-formats.md"])
def test_reference_pages_are_those_of_the_code(name):
    current = (ROOT / "docs" / "reference" / name).read_text() == reference().PAGES[name]()
    assert current, "run python scripts/reference.py"


def test_each_part_of_a_command_has_one_heading():
    for command in read("docs/reference/cli.md").split("\n## ")[1:]:
        headings = re.findall(r"^\*\*(.+)\*\*$", command, re.MULTILINE)
        assert sorted(headings) == sorted(set(headings)), command.partition("\n")[0]


@pytest.mark.parametrize("name", [manifest.NAME, manifest.RECIPE_NAME, LOCK_NAME])
def test_the_files_of_a_store_are_listed(name):
    store = read("docs/reference/file-formats.md").partition("## The manifest")[0]
    assert re.search(rf" {re.escape(name)} ", store)


def test_readme_is_short():
    assert read("README.md").count("\n") <= 150


@pytest.mark.parametrize("name", NAMES)
def test_words_are_those_of_the_field(name):
    found = [
        f"{number}: {match[0]}"
        for number, line in enumerate(read(name).splitlines(), 1)
        for match in PRIVATE.finditer(line)
    ]
    assert not found


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_files_and_headings(name):
    text = re.sub(r"^```.*?^```$", "", read(name), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\((?!https:)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        page = (ROOT / name).parent / path if path else ROOT / name
        assert page.is_file(), f"{name}: {target}"
        headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
        slugs = {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}
        objects = set(re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE))
        assert not anchor or anchor in slugs | objects, f"{name}: {target}"


def test_every_command_is_in_the_table_of_the_readme():
    commands = re.findall(r"^\| \[`(\w+)`\]", read("docs/reference/cli.md"), re.MULTILINE)
    assert len(commands) > 10
    shown = re.findall(r"^\| `blocklinear (\w+)", read("README.md"), re.MULTILINE)
    assert sorted(shown) == sorted(commands), "complete the table of commands in README.md"


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_every_page_is_found_from_the_first(name):
    listed = re.findall(r"\]\((?:docs/)?([^)#\s]+\.md)", read(name))
    pages = {page.removeprefix("docs/") for page in NAMES if page.startswith("docs/")}
    assert pages - {"index.md"} <= set(listed), f"complete the list of pages in {name}"


def rows_of_table(text):
    return re.findall(r"^\| (?:`(\w+)`|(\d+)) \|(.*)\|$", text, re.MULTILINE)


def test_fields_of_the_run_log_are_listed():
    text = read("docs/reference/run-log.md")
    for kind, name in LINES.items():
        section = text.split(f"## `{name}`")[1].split("\n## ")[0]
        listed = [row[0] for row in rows_of_table(section)]
        fields = [field.name for field in dataclasses.fields(kind)]
        assert listed == fields, f"complete {name} in docs/reference/run-log.md"
    assert set(LINES) < set(events.Event.__args__)


def test_exit_codes_are_listed():
    listed = {
        int(code): rest for _, code, rest in rows_of_table(read("docs/reference/exit-codes.md"))
    }
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.BlocklinearError)
    ]
    for kind in kinds:
        if kind is not errors.BlocklinearError:
            assert f"`{kind.__name__}`" in listed[kind.exit_code], kind
    for code, rest in listed.items():
        for name in re.findall(r"`(\w+Error)`", rest):
            assert getattr(errors, name).exit_code == code


def test_pages_are_in_the_navigation():
    navigation = (ROOT / "scripts" / "mkdocs.yml").read_text()
    pages = {name.removeprefix("docs/") for name in NAMES if name.startswith("docs/")}
    assert pages == set(re.findall(r"[\w/-]+\.md", navigation)), "complete scripts/mkdocs.yml"


def test_public_names_are_documented():
    import blocklinear

    described = re.findall(r"^::: blocklinear\.(\w+)$", read("docs/reference/api.md"), re.MULTILINE)
    assert sorted(described) == sorted(blocklinear.__all__), "complete docs/reference/api.md"


@pytest.mark.parametrize("text", ["two epochs a visit", "Told of it", "settled rows", "reads over"])
def test_private_words_are_found(text):
    assert PRIVATE.search(text)


@pytest.mark.parametrize("name", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_files_and_names_that_developers_are_sent_to_exist(name):
    text = read(name)
    paths = re.findall(r"`((?:blocklinear|tests|scripts|bench)/[\w/.]*)`", text)
    assert len(paths) > 5
    for path in paths:
        assert (ROOT / path).exists() or "NAME" in path, path
    tree = re.findall(
        r"^  [|v ] +((?:text|store|training|solvers|kernels|objectives|model)/\w+\.py)",
        text,
        re.MULTILINE,
    )
    for path in tree:
        assert (ROOT / "blocklinear" / path).is_file(), path
    sources = "".join(path.read_text() for path in (ROOT / "blocklinear").rglob("*.py"))
    symbols = re.findall(r"`(_\w+|[a-z]+_\w+|[A-Z]\w*[a-z]\w*)(?:\.(\w+))?`", text)
    for symbol in filter(None, sum(symbols, ())):
        assert re.search(rf"\b{symbol}\b", sources), symbol


def test_public_docstrings_use_words_of_the_field():
    import blocklinear

    for name in blocklinear.__all__:
        described = getattr(blocklinear, name)
        members = vars(described).values() if isinstance(described, type) else []
        for documented in (described, *members):
            found = PRIVATE.search(getattr(documented, "__doc__", None) or "")
            assert not found, f"{name}: {found}"


def test_nothing_is_loaded_from_elsewhere():
    settings = (ROOT / "scripts" / "mkdocs.yml").read_text()
    assert "font: false" in settings
    assert "http" not in settings
    assert Path(ROOT / "scripts" / "docs.sh").stat().st_mode & 0o100
