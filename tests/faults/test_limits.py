"""Input that is well formed and too much: features, lines, text, windows, by bounds of its own."""

import json
import lzma
import re
import sys

import programs
import pytest
import zstandard

from blocklinear.cli.main import main
from blocklinear.errors import MemoryBudgetError, UsageError
from blocklinear.options import TextOptions, TrainOptions

SMALL = ["--memory", "256M"]
MOST = (256 << 20) // 24  # features whose weights three vectors of that size hold


@pytest.fixture
def write(tmp_path):
    def make(content, name="data.svm"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return make


# features


def test_an_index_the_budget_has_no_weights_for(write, split):
    good = write(b"# none\n1 1:1\n-1 2:1 %d:2\n" % MOST)
    assert split(good, options=SMALL).code == 0
    path = write(b"# none\n1 1:1\n-1 2:1 %d:2 4294967295:1\n1 2:1\n" % (MOST + 1), "wide")
    err = split(path, code=7, options=SMALL).err
    assert f"{path}:3:8: index {MOST + 1} makes {MOST + 1} features" in err
    assert f"would take {24 * (MOST + 1)} bytes (256M)" in err
    for remedy in ("--memory 257M", "--hash-bits", f"--max-features {MOST + 1}"):
        assert remedy in err


def test_the_remedies_help(write, split):
    path = write(b"1 1:1\n-1 %d:2\n" % (MOST + 1))
    assert split(path, options=["--memory", "257M"]).code == 0
    assert split(path, options=[*SMALL, "--hash-bits", "20"]).code == 0
    allowed = split(path, options=[*SMALL, "--max-features", str(MOST + 1)])
    assert allowed.code == 0  # and trains there, too: three of these features occur
    wide = write(b"1 1:1\n-1 %d:2\n" % (1 << 25), "wide")
    warned = split(wide, options=[*SMALL, "--max-features", str(1 << 25)])
    assert f"warning: {1 << 25} features: the weights of a model" in warned.err


@pytest.mark.parametrize("base", ["0", "1", "auto"])
def test_the_bound_is_exact_for_either_base(base, write, split):
    shift = int(base == "1")
    fits = write(b"1 1:1\n-1 %d:1\n" % (6 + shift))
    options = ["--index-base", base, "--max-features"]
    first = b"1 0:1\n" if base == "auto" else b""
    more = write(first + b"1 1:1\n-1 3:1 %d:1 9:1\n" % (7 + shift), "more")
    assert split(fits, options=[*options, "7"]).code == 0
    line = 3 if first else 2
    err = split(more, code=7, options=[*options, "7"]).err
    assert f"{more}:{line}:8: index {7 + shift} makes 8" in err


def test_an_explicit_zero_makes_a_feature(write, split):
    path = write(b"1 1:1\n-1 9:0\n")
    assert f"{path}:2:4: index 9" in split(path, code=7, options=["--max-features", "8"]).err


def test_skipped_lines_make_no_features_and_wide_ones_are_not_skipped(write, split):
    path = write(b"1 1:1\nx 99:1\n1 99:nan\n-1 7:1\n")
    assert split(path, options=["--max-features", "7", "--on-error", "skip"]).code == 0
    err = split(path, code=7, options=["--max-features", "6", "--on-error", "skip"]).err
    assert f"{path}:4:4: index 7 makes 7 features, and 6 are allowed" in err


@pytest.mark.parametrize("how", [["--unsorted", "sort"], ["--duplicates", "sum"]])
def test_a_wide_row_that_is_reshaped(how, write, split):
    path = write(b"1 1:1\n-1 2:1 9:1\n")
    assert f"{path}:2:8: index 9" in split(path, code=7, options=["--max-features", "8", *how]).err


def test_more_hashes_than_weights(write, split):
    path = write(b"1 1:1\n-1 9:1\n")
    err = split(path, code=7, options=[*SMALL, "--hash-bits", "24"]).err
    assert "24 hash bits make 16777216 features" in err
    assert "--memory 384M" in err


def test_text_that_is_trained_on_directly(write, tmp_path, capsys):
    path = write(b"1 1:1\n-1 %d:2\n" % (MOST + 1))
    assert main(["train", str(path), str(tmp_path / "model"), *SMALL]) == 7
    assert f"{path}:2:4: index" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["data.svm"]


def test_check_counts_on_and_notes_it(write, capsys):
    path = write(b"1 1:1\n-1 %d:2\n" % (MOST + 1))
    assert main(["check", str(path), *SMALL]) == 0
    out, err = capsys.readouterr()
    assert f"indices: 1 to {MOST + 1}" in out
    assert f"warning: {MOST + 1} features: split accepts {MOST} under this memory budget" in err


# query numbers


def test_query_numbers_are_read_over(write, split):
    plain = b"1 1:1 2:1\n-1\n2 3:0.5\n0 1:1 # qid:4\n"
    ranked = b"1 qid:7 1:1 2:1\n-1\tqid:12\r\n2  qid:8 3:0.5\n0 qid:9 1:1 # qid:4\n"
    done = split(write(ranked), options=["--ignore-qid"])
    assert done.blocks == split(write(plain, "plain")).blocks
    assert "4 query numbers (qid) were ignored" in done.out


@pytest.mark.parametrize("line", [b"1 1:1 qid:7", b"1 qid:7 qid:8", b"1 qid:a", b"1 qid:7:1"])
def test_other_query_numbers_are_refused(line, write, split):
    path = write(b"1 1:1\n" + line + b"\n")
    assert f"{path}:2:" in split(path, code=3, options=["--ignore-qid"]).err


def test_a_column_is_that_of_the_text_with_its_query_number(write, split):
    path = write(b"1 qid:17 1:1 1:2\n")
    assert f"{path}:1:14: index 1" in split(path, code=3, options=["--ignore-qid"]).err


# lines


def test_the_bound_of_a_line_can_be_chosen(write, split):
    path = write(b"1 1:1\n" + b"1 1:1" + b" " * (70_000 - 5) + b"\n-1 1:2\n")
    assert split(path, options=["--max-line-bytes", "70000"]).code == 0
    err = split(path, code=3, options=["--max-line-bytes", "69999"]).err
    assert f"{path}:2:70000: the line is longer than 68.4K" in err
    assert "--max-line-bytes 139998" in err


def test_the_bound_of_a_line_fits_the_budget(write, split):
    err = split(write(b"1 1:1\n"), code=7, options=[*SMALL, "--max-line-bytes", "45M"]).err
    assert "max-line-bytes is 47185920, more than the 46137344 bytes that --memory allows" in err
    with pytest.raises(UsageError, match="max-line-bytes is 1, but must be at least 65536"):
        TextOptions(max_line_bytes=1)


# compressed input


@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
def test_text_beyond_what_was_allowed(size, write, split):
    text = b"1 1:1\n-1 2:1\n" * (size // 13 + 1)
    path = write(zstandard.ZstdCompressor(write_checksum=True).compress(text))
    assert split(path, options=["--max-decompressed", str(len(text))]).code == 0
    err = split(path, code=3, options=["--max-decompressed", str(len(text) - 1)]).err
    assert f"{path}: holds more than {len(text) - 1} bytes of text" in err
    assert split(write(text), options=["--max-decompressed", "1"]).code == 0  # not compressed


def test_a_bomb_stays_within_the_budget(tmp_path):
    """Text a thousand times as large as its stream; VmHWM counts code and libraries too."""
    path = tmp_path / "bomb.zst"
    packer = zstandard.ZstdCompressor(write_checksum=True)
    with open(path, "wb") as stream, packer.stream_writer(stream) as packed:
        for _ in range(64):
            packed.write(b"# nothing\n" * 100_000)
    assert path.stat().st_size < 64 << 10
    program = (
        "import re, sys; from blocklinear.cli.main import main; status = main(sys.argv[1:]); "
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]); "
        "sys.exit(status)"
    )
    done = programs.run([sys.executable, "-c", program, "split", path, tmp_path / "s", *SMALL])
    assert (done.returncode, "no rows" in done.stderr) == (3, True)
    assert int(done.stdout) < (256 + 64) << 10


def test_a_bomb_within_a_bomb_is_not_text(write, split):
    pack = zstandard.ZstdCompressor(write_checksum=True).compress
    err = split(write(lzma.compress(pack(b"1 1:1\n" * 1000))), code=3).err
    assert "this is a zst stream within another stream, not LIBSVM text" in err


def frame(window_log, content_size=None):
    """The head of a zst frame with such a window, that may forge its size, and one raw block."""
    sized = b"" if content_size is None else content_size.to_bytes(8, "little")
    descriptor = bytes([0xC0 if sized else 0])
    text = b"1 1:1\n-1 1:2\n"
    block = (1 | len(text) << 3).to_bytes(3, "little") + text
    window = bytes([(window_log - 10) << 3])
    return b"\x28\xb5\x2f\xfd" + descriptor + window + sized + block


@pytest.mark.parametrize("log", [28, 30, 31])
def test_a_window_beyond_the_bound(log, write, split):
    err = split(write(frame(log)), code=3, options=["--memory", "1G"]).err
    assert "the zst stream needs a window of" in err
    assert "more than 128M" in err
    assert "--max-window" in err


def test_a_window_that_was_allowed(write, split):
    options = ["--memory", "1G", "--max-window", "256M"]
    assert split(write(frame(28)), options=options).code == 0
    assert "more than 256M" in split(write(frame(29)), code=3, options=options).err
    assert "more than 64M" in split(write(frame(27)), code=3, options=SMALL).err
    err = split(write(frame(27)), code=7, options=[*SMALL, "--max-window", "128M"]).err
    assert "max-window is 134217728, more than the 67108864 bytes that --memory allows" in err


def test_an_xz_window_beyond_the_bound(write, split):
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 96 << 20}]
    path = write(lzma.compress(b"1 1:1\n-1 1:2\n", filters=filters))
    assert split(path, options=["--memory", "512M"]).code == 0
    err = split(path, code=3, options=SMALL).err
    assert "the xz stream needs a window of more than 64M" in err


@pytest.mark.parametrize("size", [1 << 40, 1 << 63, 0])
def test_a_forged_size_allocates_nothing(size, write, split):
    assert "stream" in split(write(frame(20, size)), code=3).err


def test_options_must_make_sense():
    for wrong in ({"max_features": 0}, {"max_decompressed": 0}, {"expect_rows": -1}):
        with pytest.raises(UsageError, match="must be at least"):
            TextOptions(**wrong)
    with pytest.raises(UsageError, match="64 hexadecimal digits"):
        TextOptions(expect_sha256="abc")
    with pytest.raises(MemoryBudgetError):
        TextOptions(memory_bytes=1 << 30, max_window=1 << 29)


def test_what_was_ignored_is_in_the_manifest(write, tmp_path, capsys):
    store = tmp_path / "store"
    assert main(["split", str(write(b"1 qid:1 1:1\n-1 1:1\n")), str(store), "--ignore-qid"]) == 0
    capsys.readouterr()
    assert main(["info", str(store), "--json"]) == 0
    (source,) = json.loads(capsys.readouterr().out)["batches"][0]["sources"]
    assert source["ignored_qids"] == 1


# numbers of thousands of digits, of which int() reads no more than 4300

ZEROS, NINES = b"0" * 5000, b"9" * 5000


def test_an_index_with_thousands_of_zeros_is_the_same_index(write, split):
    plain, padded = (
        split(write(text, name)).blocks
        for name, text in (("a", b"1 3:1 7:1\n-1 3:1\n"), ("b", b"1 %b3:1 7:1\n-1 3:1\n" % ZEROS))
    )
    assert plain == padded


@pytest.mark.parametrize(
    ("text", "options", "code", "said"),
    [
        (b"1 1:1 %b9:3\n", ["--max-features", "3"], 7, ":1:7: index 9 makes 9 features"),
        (b"1 %b1:1 1:3\n", [], 3, ":1:5007: index 1 is repeated"),
        (b"1 2:1 %b1:3\n", [], 3, f":1:7: index {'0' * 40} follows a larger one"),
        (b"1 2:9e153 1:1 %b2:9e153\n", ["--duplicates", "sum", "--unsorted", "sort"], 3,
         ":1:15: the values of index 2 add up to 1e154 or more"),
        (b"1 2:1 1:1 %b2:1\n", ["--unsorted", "sort"], 3, ":1:11: index 2 is repeated"),
    ],
)  # fmt: skip
def test_a_fault_in_an_index_with_thousands_of_zeros(write, split, text, options, code, said):
    assert said in split(write(text % ZEROS), code=code, options=options).err


@pytest.mark.parametrize("text", [b"1 %b:1\n", b"%b 1:1\n", b"1 1:%b\n", b"1 1:1e%b\n"])
def test_numbers_of_thousands_of_digits_are_refused(write, split, text):
    split(write(b"-1 1:1\n" + text % NINES), code=3)


@pytest.mark.parametrize("digits", [309, 5000])
@pytest.mark.parametrize(
    "flag",
    ["--memory", "--threads", "--blocks", "--seed", "--hash-bits", "--max-line-bytes",
     "--max-window", "--max-decompressed", "--index-base"],
)  # fmt: skip
def test_options_of_many_digits_are_refused_in_few_words(write, capsys, tmp_path, flag, digits):
    path = write(b"1 1:1\n-1 2:1\n")
    try:
        code = main(["split", str(path), str(tmp_path / "s"), "-q", flag, "9" * digits])
    except SystemExit as leaving:
        code = leaving.code
    said = capsys.readouterr().err.splitlines()
    said = next(line for line in said if "99999" in line)
    assert code in (2, 7)  # a window of which a quarter is more than the budget
    assert flag.lstrip("-") in said.replace("index base", "index-base")
    assert len(said) < 300
    assert not (tmp_path / "s").exists()


def test_options_of_python_with_many_digits():
    for name in ("memory_bytes", "threads", "max_errors"):
        with pytest.raises(UsageError, match="must be"):
            TextOptions(**{name: -(10**5000)})
    for name in ("cost", "gap", "bias", "epsilon", "tolerance"):
        with pytest.raises(UsageError, match="must be"):
            TrainOptions(**{name: 10**5000})


def test_advice_on_long_lines_can_be_followed(write, tmp_path, capsys):
    """Predicting takes memory besides that for text, so that eight times a line are too few."""
    text = b"".join(b"%d 1:%d 2:1\n" % (k % 2, k % 2) for k in range(20))
    path, store, model = write(text), str(tmp_path / "s"), str(tmp_path / "m")
    assert main(["split", str(path), store, "-q"]) == 0
    assert main(["train", store, model, "-q"]) == 0
    wide = write(b"1 1:1" + b" " * (3 << 20) + b"2:1\n", "wide")
    for command in (
        ["split", str(wide), f"{store}2"],
        ["predict", str(wide), model, str(tmp_path / "o")],
    ):
        memory = 140
        capsys.readouterr()
        flags = ["--max-line-bytes", "1M", "-q"]
        assert main([*command, *flags, "--memory", f"{memory}M"]) == 3
        said = capsys.readouterr().err
        line_bytes = int(
            re.search(r"--max-line-bytes (\d+) or more, and eight times that", said)[1]
        )
        while (line_bytes := 2 * line_bytes) <= 3 << 20:
            pass
        more = memory + (8 * line_bytes >> 20)
        flags = ["--max-line-bytes", str(line_bytes), "-q", "--memory", f"{more}M"]
        assert main([*command, *flags]) == 0, capsys.readouterr().err
