"""What commands write to: files are replaced whole, the rest is written to as it is."""

import ctypes
import json
import os
import signal
import stat

import programs
import pytest

from blocklinear.model.linear import LinearModel

CV = ("-v", 2, "-c", "0.1,1", "-q")


@pytest.fixture
def model(cli, store, tmp_path):
    path = tmp_path / "model"
    assert cli("train", store, path, "-q", "--run", "fixture").status == 0
    return path


@pytest.fixture
def labels(cli, rows, model, tmp_path):
    """Return what the model predicts."""
    assert cli("predict", rows, model, tmp_path / "labels", "-q").status == 0
    return (tmp_path / "labels").read_text()


@pytest.fixture(scope="module")
def shell(starter, tmp_path_factory):
    """Run a line of bash, in which $0 is the program and $1, $2, ... are the arguments."""
    program = tmp_path_factory.mktemp("bin") / "blocklinear"
    starter.write_program(program)

    def run(script, *arguments):
        return programs.run(["bash", "-c", script, program, *arguments])

    return run


def tree(folder):
    """Return every file below a folder, and what it holds."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# streams


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_no_line_of_a_redirected_prediction_is_lost(shell, rows, model, labels, tmp_path, name):
    done = shell(f'$0 predict "$1" "$2" {name} > "$3"', rows, model, tmp_path / "f")
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "f").read_text() == labels
    assert "Accuracy = " in done.stderr
    (tmp_path / "f").write_text("before\n")
    done = shell(f'$0 predict "$1" "$2" {name} >> "$3"', rows, model, tmp_path / "f")
    assert (tmp_path / "f").read_text() == "before\n" + labels
    done = shell(f'$0 predict "$1" "$2" {name} --json | cat', rows, model)
    assert done.stdout == labels
    assert json.loads(done.stderr.splitlines()[0])["rows"] == 60


def test_a_link_to_standard_output_stays(shell, rows, model, labels, tmp_path):
    (tmp_path / "link").symlink_to("/dev/stdout")
    done = shell('$0 predict "$1" "$2" "$3" > "$4"', rows, model, tmp_path / "link", tmp_path / "f")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "f").read_text() == labels
    assert os.readlink(tmp_path / "link") == "/dev/stdout"


def test_process_substitution(shell, rows, model, labels, store, tmp_path):
    done = shell('$0 predict "$1" "$2" >(cat > "$3"; echo done) | cat', rows, model, tmp_path / "f")
    assert (tmp_path / "f").read_text() == labels
    assert "Accuracy" in done.stdout
    done = shell('$0 predict "$1" "$2" /dev/fd/7 7>&1 >"$3" | cat', rows, model, tmp_path / "r")
    assert done.stdout == labels
    assert (tmp_path / "r").read_text().startswith("Accuracy")


def test_a_descriptor_that_shares_standard_output(shell, rows, model, labels, tmp_path):
    done = shell('$0 predict "$1" "$2" /dev/fd/7 7>&1 | cat', rows, model)
    assert done.stdout == labels
    done = shell('$0 predict "$1" "$2" /dev/fd/7', rows, model)
    assert (done.returncode, done.stdout) == (6, "")
    assert "/dev/fd/7: " in done.stderr


def test_pipes_are_written_to_not_replaced(cli, rows, model, labels, store, tmp_path):
    fifo, found = tmp_path / "fifo", []
    os.mkfifo(fifo)
    for arguments in (
        ("predict", rows, model, fifo),
        ("convert", model, fifo, "--to", "native"),
        ("convert", model, fifo, "--to", "liblinear"),
        ("train", store, fifo, "-q"),
        ("cv", store, *CV, "--predictions", fifo),
    ):
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)  # all that is written fits the pipe
        done = cli(*arguments)
        assert done.status == 0, done.err
        found.append(os.read(reader, 1 << 16))
        os.close(reader)
        assert stat.S_ISFIFO(fifo.lstat().st_mode)
    assert found[0].decode() == labels
    (tmp_path / "again").write_bytes(found[1])
    assert found[1] == model.read_bytes()
    assert found[2].startswith(b"solver_type ")
    (tmp_path / "trained").write_bytes(found[3])
    weights = [LinearModel.load(tmp_path / name).weights for name in ("trained", "model")]
    assert weights[0].tobytes() == weights[1].tobytes()
    assert found[4].count(b"\n") == 60


def test_a_model_on_standard_output(shell, store, model, tmp_path):
    done = shell('$0 train "$1" - -q --run piped > "$2"', store, tmp_path / "m")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("primal ")
    assert (tmp_path / "m").read_bytes() == model.read_bytes()
    done = shell('$0 convert "$1" /dev/stdout --to liblinear > "$2"', model, tmp_path / "text")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "text").read_text().startswith("solver_type L2R_L1LOSS_SVC_DUAL\n")


def test_a_log_on_standard_output(shell, store, tmp_path):
    for name in ("-", "/dev/stdout"):
        done = shell(
            f'$0 train "$1" "$2" -q --log {name} > "$3"', store, tmp_path / "m", tmp_path / "l"
        )
        assert (done.returncode, done.stderr.split()[0]) == (0, "primal")
        events = [json.loads(line)["event"] for line in (tmp_path / "l").read_text().splitlines()]
        assert (events[0], {*events[1:-1]}, events[-1]) == ("start", {"outer"}, "end")


def test_a_refitted_model_on_standard_output(shell, store, tmp_path):
    done = shell('$0 cv "$1" -v 2 -c 0.1,1 -q --refit - > "$2"', store, tmp_path / "m")
    assert done.returncode == 0
    assert "accuracy" in done.stderr
    assert LinearModel.load(tmp_path / "m").metadata["C"] in (0.1, 1.0)


def test_the_null_device_stays(cli, rows, model, store):
    for arguments in (
        ("predict", rows, model, "/dev/null"),
        ("convert", model, "/dev/null", "--to", "native"),
        ("train", store, "/dev/null", "-q"),
        ("train", store, "/dev/null", "-q", "--log", "/dev/null"),
        ("cv", store, *CV, "--predictions", "/dev/null"),
    ):
        done = cli(*arguments)
        assert done.status == 0, done.err
        assert done.out or arguments[0] == "convert"  # results are not predictions
        assert stat.S_ISCHR(os.lstat("/dev/null").st_mode)


def test_two_outputs_on_one_stream(refused, store, tmp_path):
    both = ("--predictions", "-", "--refit", "/dev/stdout")
    assert "two outputs" in refused(2, "cv", store, *CV, *both)
    both = ("--predictions", tmp_path / "x", "--refit", f"{tmp_path}/./x")
    assert "two outputs" in refused(2, "cv", store, *CV, *both)
    assert "two outputs" in refused(2, "train", store, tmp_path / "x", "--log", tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_several_models_take_files(refused, store, name):
    assert "several models" in refused(2, "train", store, name, "-c", "1,2", "-q")
    assert not os.path.lexists("/dev/stdout.C=1")


# what is never overwritten


def test_inputs_are_never_overwritten(cli, refused, rows, store, model, tmp_path):
    (tmp_path / "link").symlink_to(rows)
    os.link(model, tmp_path / "hard")
    os.link(rows, tmp_path / "test.svm")
    before = tree(tmp_path)
    for arguments in (
        ("predict", rows, model, rows),
        ("predict", rows, model, tmp_path / "link"),
        ("predict", rows, model, tmp_path / "test.svm"),
        ("predict", rows, model, model),
        ("predict", rows, model, tmp_path / "hard"),
        ("convert", model, model, "--to", "native"),
        ("convert", model, tmp_path / "hard", "--to", "liblinear"),
        ("cv", rows, *CV, "--predictions", rows),
        ("cv", rows, *CV, "--predictions", f"{rows}.blocks"),
        ("train", rows, f"{rows}.blocks", "-q"),
        ("train", store, tmp_path / "m", "--eval", rows, "--log", rows),
        ("train", store, rows, "--eval", rows),
        ("train", store, tmp_path / "test.svm", "-c", "1,2", "--best-on", rows),
    ):
        assert "is both input and output" in refused(2, *arguments), arguments
    # also where the store was made from it
    for name in ("rows.svm", "link"):
        said = refused(2, "cv", store, *CV, "--predictions", tmp_path / name)
        assert "is what the store was made from" in said
    assert tree(tmp_path) == before


def test_standard_input_is_never_overwritten(shell, rows, model, tmp_path):
    before = rows.read_bytes()
    done = shell('$0 predict - "$2" "$1" < "$1"', rows, model)
    assert (done.returncode, rows.read_bytes()) == (2, before)
    done = shell('$0 predict "$1" "$2" - >> "$1"', rows, model)
    assert (done.returncode, rows.read_bytes()) == (2, before)


def test_files_of_a_store_are_never_overwritten(cli, refused, rows, store, model, tmp_path):
    (tmp_path / "linked").symlink_to(store)
    (tmp_path / "manifest").symlink_to(store / "manifest.json")
    before, block = tree(tmp_path), min((store / "blocks").iterdir())
    for path in (
        store / "manifest.json", tmp_path / "linked" / "manifest.json", tmp_path / "manifest",
        block, store / "lock", store / "runs" / "default" / "checkpoint.json", store / "new",
    ):  # fmt: skip
        for arguments in (
            ("predict", rows, model, path),
            ("convert", model, path, "--to", "native"),
            ("cv", rows, *CV, "--predictions", path),
            ("cv", rows, *CV, "--refit", path),
            ("train", rows, path, "-q"),
            ("train", rows, tmp_path / "m", "--log", path),
        ):
            assert "in the store" in refused(2, *arguments), arguments
    assert tree(tmp_path) == before


def test_the_file_that_standard_output_goes_to(shell, rows, model, store, tmp_path):
    """Replaced, it would lose what is printed; appended to, it would be overwritten."""
    for arguments in ('predict "$1" "$2" "$4"', 'train "$3" "$4"', 'train "$3" "$2" --log "$4"'):
        done = shell(f'$0 {arguments} > "$4"', rows, model, store, tmp_path / "f")
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert "standard output goes there" in done.stderr
        assert (tmp_path / "f").read_bytes() == b""


def test_only_regular_files_are_replaced(cli, refused, rows, model, store, tmp_path):
    for arguments in (
        ("predict", rows, model, tmp_path),
        ("convert", model, tmp_path, "--to", "native"),
        ("cv", rows, *CV, "--predictions", tmp_path),
        ("train", rows, tmp_path, "-q"),
        ("train", rows, tmp_path / "m", "--log", tmp_path),
    ):
        assert "not a regular file" in refused(2, *arguments), arguments
    for arguments in (
        ("predict", rows, model, f"{tmp_path}/out/"),
        ("train", rows, f"{tmp_path}/m/", "-q"),
    ):
        assert "/: is the name of a folder" in refused(2, *arguments), arguments


def test_links_are_followed(cli, rows, model, labels, store, tmp_path):
    (tmp_path / "target").write_text("old\n")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "dangling").symlink_to("new")
    for name, target in (("link", "target"), ("dangling", "new")):
        assert cli("predict", rows, model, tmp_path / name, "-q").status == 0
        assert (tmp_path / target).read_text() == labels
        (tmp_path / target).unlink()
        assert cli("convert", model, tmp_path / name, "--to", "native").status == 0
        assert (tmp_path / target).read_bytes() == model.read_bytes()
        (tmp_path / target).unlink()
        assert cli("cv", store, *CV, "--predictions", tmp_path / name).status == 0
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / target).read_text().count("\n") == 60


# refused before any work


@pytest.mark.parametrize("name", ["nowhere/file", "rows.svm/file", "x" * 256], ids=str)
def test_a_place_that_cannot_be_is_told_of_before_any_work(refused, rows, model, tmp_path, name):
    """Before the text is even split."""
    path = tmp_path / name
    for arguments in (
        ("train", rows, path, "-q"),
        ("train", rows, path, "-q", "-c", "1,2"),
        ("train", rows, tmp_path / "m", "-q", "--log", path),
        ("train", rows, tmp_path / "m", "-q", "--eval", path),
        ("train", rows, tmp_path / "m", "-q", "-c", "1,2", "--best-on", path),
        ("cv", rows, *CV, "--predictions", path),
        ("cv", rows, *CV, "--refit", path),
        ("cv", rows, *CV, "--log", path),
        ("predict", tmp_path / "no such rows", model, path),
        ("convert", model, path, "--to", "native"),
    ):
        said = refused(6, *arguments)
        assert name.partition("/")[0] in said, arguments
        assert "no such rows" not in said
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["model", "rows.svm", "store"]


def test_results_and_models_have_no_urls(refused, rows, model, store, tmp_path):
    url = "s3://user:secret@bucket/file?signature"
    for line in (
        ("train", store, url),
        ("train", store, tmp_path / "m", "--log", url),
        ("predict", rows, model, url),
        ("convert", model, url, "--to", "json"),
        ("report", model, "-o", url),
        ("plot", rows, "-o", url),
    ):
        assert "s3://bucket/file: results are written to this machine" in refused(2, *line)
    for line in (
        ("predict", rows, url, tmp_path / "out"),
        ("convert", url, tmp_path / "out", "--to", "native"),
        ("report", url, "-o", tmp_path / "out"),
    ):
        assert "s3://bucket/file: models are read from files" in refused(2, *line)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_to(rows, store, tmp_path, refused, monkeypatch):
    """Root may write everywhere: a folder of /proc stands in for one that refuses."""
    for arguments in (
        ("train", rows, "/proc/1/task/model"),
        ("cv", rows, *CV, "--predictions", "/proc/1/task/x"),
    ):
        assert "/proc/1/task" in refused(6, *arguments)
    assert not (tmp_path / "rows.svm.blocks").exists()


def obey_permissions():
    """Take from root, in a process that is to begin, the right to read and write everything."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.parametrize("name", ["closed/file", "file"])
def test_what_may_not_be_written_to_is_said_before_any_work(rows, model, tmp_path, name):
    (tmp_path / "closed").mkdir(mode=0o555)
    path = tmp_path / name
    if name == "file":
        path.touch(mode=0o444)
    before = sorted(tmp_path.rglob("*"))
    commands = [("train", rows, tmp_path / "m", "--log", path), ("cv", rows, *CV, "--log", path)]
    if name != "file":  # which the others replace
        commands += [
            ("split", rows, path),
            ("train", rows, path),
            ("cv", rows, *CV, "--predictions", path),
            ("cv", rows, *CV, "--refit", path),
            ("predict", rows, model, path),
            ("convert", model, path, "--to", "json"),
            ("report", model, "-o", path, "--test", rows),
        ]
    for arguments in commands:
        done = programs.blocklinear(*arguments, preexec_fn=obey_permissions)
        assert done.returncode == 6, arguments
        assert ": Permission denied\n  fix: check the disk, the path and its perm" in done.stderr
        assert sorted(tmp_path.rglob("*")) == before, arguments


def test_a_log_that_is_there_needs_no_folder_that_may_be_written_to(store, tmp_path):
    """It is appended to. It was refused, as if it were made anew and renamed."""
    (tmp_path / "closed").mkdir()
    path = tmp_path / "closed/log"
    path.touch()
    path.parent.chmod(0o555)
    arguments = ("train", store, tmp_path / "m", "-q", "--log", path)
    done = programs.blocklinear(*arguments, preexec_fn=obey_permissions)
    assert (done.returncode, done.stderr) == (0, "")
    assert path.read_text().startswith("{")


def test_a_store_that_cannot_be_made_next_to_its_text(rows, tmp_path):
    rows.parent.chmod(0o555)
    try:
        done = programs.blocklinear("cv", rows, *CV, preexec_fn=obey_permissions)
    finally:
        rows.parent.chmod(0o755)
    assert done.returncode == 6
    assert f"{rows}.blocks: the store of {rows.name} cannot be made: its folder" in done.stderr
    assert "fix: make the store elsewhere by `blocklinear split`" in done.stderr


def test_what_is_no_log_is_told_of_before_any_work(refused, rows, tmp_path):
    (tmp_path / "notes").write_text("not a log\n")
    said = refused(2, "train", rows, tmp_path / "m", "--log", tmp_path / "notes", "-q")
    assert "exists and is not a log" in said
    assert not (tmp_path / "rows.svm.blocks").exists()


@pytest.mark.parametrize("bad", ["1 1:1\n1 1:x\n", "1 0:1\n", "# nothing\n"])
def test_rows_to_choose_by_are_read_before_training(refused, store, tmp_path, bad):
    (tmp_path / "bad.svm").write_text(bad)
    files = tmp_path / "m", "-c", "1,2", "--best-on", tmp_path / "bad.svm", "--log", tmp_path / "l"
    said = refused(3, "train", store, *files, "-q")
    assert "bad.svm" in said
    assert not list((store / "runs").glob("*/*"))


def test_rows_to_choose_by_are_read_more_than_once(refused, store, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    files = tmp_path / "m", "-c", "1,2", "--best-on", tmp_path / "fifo"
    assert "not a regular file" in refused(2, "train", store, *files, "-q")


# results go out before what can fail


def test_the_table_is_printed_although_predictions_fail(cli, store, tmp_path):
    done = cli("cv", store, *CV, "--predictions", "/dev/full")
    assert done.status == 6
    assert done.out.splitlines()[1].split() == ["C", "accuracy", "auc", "f1"]
    assert done.err.startswith("blocklinear: /dev/full: write failed: No space left on device")


def test_predictions_are_written_although_the_table_fails(store, tmp_path):
    with open("/dev/full", "wb") as full:
        done = programs.blocklinear("cv", store, *CV, "--predictions", tmp_path / "p", stdout=full)
    assert done.returncode == 6, done.stderr
    assert (tmp_path / "p").read_text().count("\n") == 60


def test_the_table_is_printed_although_the_refit_is_refused(cli, rows, store, tmp_path):
    """Predictions of the text that is split take no harm either."""
    (tmp_path / "sub").mkdir()
    done = cli("cv", store, *CV, "--predictions", tmp_path / "p", "--refit", tmp_path / "m")
    assert done.status == 0
    assert (tmp_path / "p").read_text().count("\n") == 60
    assert LinearModel.load(tmp_path / "m").metadata["C"] in (0.1, 1.0)


# a full disk


@pytest.mark.parametrize("step", [0, 1, 2])
def test_what_a_killed_command_left_is_deleted_by_the_next(starter, rows, model, tmp_path, step):
    out = tmp_path / "out"
    kill = tmp_path / ".tmp-", step, signal.SIGKILL
    assert starter.run("predict", rows, model, out, signals=[kill])[0] == -signal.SIGKILL
    assert starter.run("predict", rows, model, out)[0] == 0
    assert not list(tmp_path.glob(".tmp-*"))


def test_a_full_disk_leaves_what_was_there(starter, rows, model, tmp_path):
    many = tmp_path / "many.svm"
    many.write_text(rows.read_text() * 500)
    out = tmp_path / "out"
    for before in (None, "old\n"):
        if before is not None:
            out.write_text(before)
        status, err = starter.run("predict", many, model, out, file_bytes=4096)
        assert status == 6
        assert f"{out}: write failed: File too large" in err
        assert out.exists() == (before is not None)
        assert before is None or out.read_text() == before
    assert not list(tmp_path.glob(".tmp-*"))


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no /dev/shm")
def test_files_below_dev_are_files(rows, model, labels, tmp_path, cli, starter):
    """As those in /dev/shm are: half a file was left there, and an old one lost, on a full disk."""
    out = f"/dev/shm/blocklinear-test-{os.getpid()}"
    many = tmp_path / "many.svm"
    many.write_text(rows.read_text() * 500)
    try:
        assert starter.run("predict", many, model, out, file_bytes=4096)[0] == 6
        assert not os.path.exists(out)
        assert cli("predict", rows, model, out, "-q").status == 0
        with open(out) as stream:
            assert stream.read() == labels
    finally:
        if os.path.exists(out):
            os.unlink(out)


@pytest.mark.parametrize("how", ["-", "/dev/stdout", "/dev/full"])
def test_predictions_to_a_full_device(shell, rows, model, tmp_path, how):
    done = shell(f'$0 predict "$1" "$2" {how} > /dev/full', rows, model)
    assert done.returncode == 6
    assert "No space left on device\n  fix: " in done.stderr


# a file named -


@pytest.mark.parametrize(
    "line",
    [
        ["predict", "ROWS", "MODEL", "-"],
        ["predict", "ROWS", "MODEL", "/dev/stdout"],
        ["convert", "MODEL", "-", "--to", "json"],
        ["train", "STORE", "-", "--restart"],
        ["train", "STORE", "m", "--restart", "--log", "-"],
        ["cv", "STORE", "-v", 2, "--predictions", "-"],
    ],
    ids=str,
)
def test_an_output_to_closed_standard_output_is_refused(rows, store, model, tmp_path, line):
    places = {"ROWS": rows, "STORE": store, "MODEL": model}
    words = [*programs.COMMAND, *(places.get(word, word) for word in line)]
    done = programs.run(["bash", "-c", '"$0" "$@" >&-', *words], cwd=tmp_path)
    assert done.returncode == 6
    assert "is not open for writing\n  fix: " in done.stderr
    assert not (tmp_path / "m").exists()


def test_a_file_named_dash(cli, rows, store, model, labels, tmp_path, monkeypatch):
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    dash = tmp_path / "cwd" / "-"
    assert cli("predict", rows, model, "./-", "-q").status == 0
    assert dash.read_text() == labels
    dash.unlink()
    assert cli("train", store, "./-", "-q").out.startswith("primal ")
    assert dash.read_bytes() == model.read_bytes()
    dash.unlink()
    assert cli("convert", model, "./-", "--to", "native").status == 0
    assert dash.read_bytes() == model.read_bytes()
    assert cli("predict", rows, "./-", "-", "-q").out == labels
    dash.unlink()
    done = cli("cv", store, *CV, "--predictions", "./-")
    assert done.out
    assert dash.read_text().count("\n") == 60
    dash.unlink()
    assert cli("train", store, tmp_path / "m", "-q", "--log", "./-").status == 0
    assert json.loads(dash.read_text().splitlines()[0])["event"] == "start"
    dash.write_bytes(rows.read_bytes())  # stdin is empty here
    for command in ("train", "cv"):
        output = [tmp_path / "m", "-q"] if command == "train" else CV
        assert cli(command, "./-", *output).status == 0
        assert (tmp_path / "cwd" / "-.blocks").is_dir()
    assert cli("split", "./-", "store", "-q").status == 0
    assert cli("check", "./-").out.startswith("60 rows")
    assert cli("train", store, tmp_path / "m", "-q", "--eval", "./-").status == 0
    assert cli("train", store, tmp_path / "m", "-q", "-c", "1,2", "--best-on", "./-").status == 0
    dash.write_text("1 1:x\n")
    for arguments in (("split", "./-", "other"), ("check", "./-"), ("train", "./-", "m")):
        assert "-:1:5: value 'x'" in cli(*arguments, *["-q"] * (arguments[0] != "check")).err
