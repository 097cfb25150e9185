"""Networks fail, files change, and servers refuse."""

import sys
import threading

import pytest
import servers

import blocklinear
from blocklinear.errors import InputError, StorageError, UsageError
from blocklinear.inputs import objects
from blocklinear.inputs.objects import RemoteObject
from blocklinear.inputs.raw import RawFile

from .packed import blocks_of


def read_whole(url):
    raw = RawFile(url)
    try:
        found = b""
        while piece := raw.read():
            found += piece
        raw.finish()
    finally:
        raw.close()
    return found


def test_a_connection_that_is_cut_is_taken_up_again(rows, path, s3, small_parts, tmp_path):
    s3.pipe_file("data/rows.svm", rows)
    s3.proxy.cut(times=2, after_bytes=40_000)
    store = blocklinear.split("s3://data/rows.svm", tmp_path / "store", blocks=4)
    assert s3.proxy.made == 2
    local = blocklinear.split(path, tmp_path / "local", blocks=4)
    assert blocks_of(store) == blocks_of(local)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_connection_that_is_cut_while_a_file_is_opened(rows, path, s3, times, tmp_path):
    """Before the first byte of an answer, which is the size of the file."""
    s3.pipe_file("data/rows.svm", rows)
    local = blocklinear.split(path, tmp_path / "local", blocks=4)
    s3.proxy.cut(times=times, after_bytes=0)
    store = blocklinear.split("s3://data/rows.svm", tmp_path / "store", blocks=4)
    assert s3.proxy.made == times
    assert blocks_of(store) == blocks_of(local)


class Asked:
    """Requests to a file system, of which one fails, and others if it is made again."""

    def __init__(self, monkeypatch, system, names, at, times=1):
        self.n, self._at, self._left = 0, at, times
        self._lock = threading.Lock()
        for name in names:
            monkeypatch.setattr(type(system), name, self._counted(getattr(type(system), name)))

    def _counted(self, real):
        def request(*given, **more):
            with self._lock:
                self.n += 1
                fails = self.n > self._at and self._left > 0
                self._left -= fails
            if fails:
                raise ConnectionResetError("cut")
            return real(*given, **more)

        return request


def wait_for_requests():
    """Wait for the threads of parts that nobody wants any more."""
    for thread in threading.enumerate():
        if thread.name == "fetch":
            thread.join()


REQUESTS = ("info", "open", "cat_file")


@pytest.mark.parametrize("times", [1, 3])
def test_any_request_is_made_again(rows, memory, small_parts, monkeypatch, times):
    memory.pipe_file("/rows.svm", rows)
    with monkeypatch.context() as patch:
        asked = Asked(patch, memory, REQUESTS, 0, 0)
        assert read_whole("memory://rows.svm") == rows
    parts = -(-len(rows) // (1 << 16))
    assert asked.n == 1 + 1 + parts + 1  # its size, whether there are parts, parts, its size
    for at in range(asked.n):
        with monkeypatch.context() as patch:
            Asked(patch, memory, REQUESTS, at, times)
            assert read_whole("memory://rows.svm") == rows, at


def test_requests_that_fail_for_ever(rows, memory, small_parts, monkeypatch):
    memory.pipe_file("/rows.svm", rows)
    messages = set()
    for at in range(3 + -(-len(rows) // (1 << 16))):
        with monkeypatch.context() as patch:
            Asked(patch, memory, REQUESTS, at, 1_000)
            with pytest.raises(StorageError, match=r"failed[^:]*, 4 times: cut") as caught:
                read_whole("memory://rows.svm")
            wait_for_requests()
            messages.add(str(caught.value).split(", 4 times")[0].split("at byte")[0])
    name = "memory://rows.svm: "
    assert messages == {
        f"{name}asking for its size failed", f"{name}asking for a part of it failed",
        f"{name}reading failed ", f"{name}comparing it with what was read failed",
    }  # fmt: skip


def test_nothing_is_asked_for_after_the_end(rows, memory, small_parts, monkeypatch):
    """A part that fails is not asked for again where reading ended meanwhile."""
    memory.pipe_file("/rows.svm", rows)
    raw = RawFile("memory://rows.svm")
    asked = []

    def fail(system, path, start, end):
        asked.append(start)
        raw.close()
        raise ConnectionResetError("cut")

    monkeypatch.setattr(type(memory), "cat_file", fail)
    with pytest.raises(StorageError, match="reading was stopped"):
        raw.read()
    wait_for_requests()
    assert len(asked) == len(set(asked))


def test_connections_that_are_cut_for_ever_end_in_an_error(rows, s3, small_parts, tmp_path):
    s3.pipe_file("data/rows.svm", rows)
    s3.proxy.cut(times=1_000, after_bytes=40_000)
    with pytest.raises(StorageError) as caught:
        blocklinear.split("s3://data/rows.svm", tmp_path / "store", blocks=4)
    text = str(caught.value)
    assert "s3://data/rows.svm: reading failed at byte" in text
    assert "4 times" in text
    assert "fix: check the network" in text
    assert not list(tmp_path.iterdir())


def test_an_object_that_cannot_be_opened(rows, s3, tmp_path):
    s3.pipe_file("data/rows.svm", rows)
    s3.proxy.cut(times=1_000, after_bytes=0)
    with pytest.raises(StorageError) as caught:
        blocklinear.split("s3://data/rows.svm", tmp_path / "store", blocks=4)
    assert "s3://data/rows.svm: asking for its size failed, 4 times: " in str(caught.value)
    assert s3.proxy.made >= 4
    assert not list(tmp_path.iterdir())


def test_an_answer_is_not_asked_for_again(s3):
    asked = []
    real = type(s3).info

    def info(self, path, **more):
        asked.append(path)
        return real(self, path, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(s3), "info", info)
        with pytest.raises(StorageError, match="there is no such file"):
            blocklinear.check("s3://data/none.svm")
    assert len(asked) == 1


def test_no_such_object_or_bucket(s3, tmp_path):
    for url in ("s3://data/none.svm", "s3://nowhere/none.svm"):
        with pytest.raises(StorageError, match=f"{url}: there is no such file"):
            blocklinear.split(url, tmp_path / "store")
    assert not list(tmp_path.iterdir())


def test_no_network(s3, tmp_path):
    s3.proxy.close()
    with pytest.raises(StorageError, match=r"asking for its size failed, 4 times: .*connect"):
        blocklinear.check("s3://data/rows.svm")


def test_a_folder(memory):
    memory.pipe_file("/folder/rows.svm", b"1 1:1\n")
    with pytest.raises(StorageError, match="memory://folder: is a folder"):
        blocklinear.check("memory://folder")


@pytest.mark.parametrize("status", [401, 403])
def test_no_permission_shows_no_secret(status, http_files):
    with http_files({"/rows.svm": b"1 1:1\n"}) as server:
        server.statuses["/rows.svm"] = status
        url = f"{server.url}/rows.svm?signature=secret"
        with pytest.raises(StorageError, match="no permission to read it") as caught:
            blocklinear.check(url)
    assert "secret" not in str(caught.value)
    assert f"{server.url}/rows.svm:" in str(caught.value)


def test_inputs_without_rows_show_no_secret(path, http_files, tmp_path):
    store = blocklinear.split(path, tmp_path / "store", blocks=2)
    model, out = blocklinear.train(store, max_outer=1), tmp_path / "out"
    with http_files({"/rows.svm": b"# nothing\n"}) as server:
        url = f"{server.url.replace('://', '://me:secret@')}/rows.svm?signature=secret"
        for call in (
            lambda: blocklinear.split(url, tmp_path / "new"), lambda: blocklinear.add(store, url),
            lambda: blocklinear.plan(url), lambda: blocklinear.evaluate(url, model),
            lambda: blocklinear.train(store, evaluate=url, restart=True),
        ):  # fmt: skip
            with pytest.raises(InputError, match="no rows") as caught:
                call()
            assert f"{server.url}/rows.svm" in str(caught.value)
            assert "secret" not in str(caught.value)
        (note,) = blocklinear.predict(url, model, out).notes
        assert note == f"{server.url}/rows.svm: no rows"


def test_a_failing_server_is_not_a_missing_file(http_files):
    with http_files({"/rows.svm": b"1 1:1\n"}) as server:
        server.statuses["/rows.svm"] = 503
        with pytest.raises(StorageError, match=r"rows\.svm: asking for .* failed, 4 times: 503"):
            blocklinear.check(f"{server.url}/rows.svm")
        with pytest.raises(StorageError, match=r"none\.svm: there is no such file"):
            blocklinear.check(f"{server.url}/none.svm")


def test_https_in_parts(rows, http_files, small_parts):
    with http_files({"/rows.svm": rows}) as server:
        assert read_whole(f"{server.url}/rows.svm?token=secret") == rows
        parts = [asked for command, _, asked in server.requests if command == "GET" and asked]
        assert len(parts) >= 9


def test_another_part_than_the_one_asked_for_is_refused(rows, http_files, small_parts):
    with http_files({"/rows.svm": rows}) as server:
        server.wrong_parts = 3
        assert read_whole(f"{server.url}/rows.svm") == rows
        assert server.wrong_parts == 0


def test_a_server_that_sends_other_parts(rows, http_files, small_parts):
    with http_files({"/rows.svm": rows}) as server:
        raw = RawFile(f"{server.url}/rows.svm")
        server.wrong_parts = 1000
        message = r"failed at byte \d+, 4 times: bytes \d+-\d+ came where \d+-\d+ were asked for"
        with pytest.raises(StorageError, match=message):
            list(iter(raw.read, b""))
        raw.close()


def test_a_server_that_compresses_on_the_way(rows, http_files, small_parts):
    with http_files({"/rows.svm": rows}) as server:
        server.compresses = True
        assert read_whole(f"{server.url}/rows.svm") == rows


def test_a_server_that_falls_silent_is_asked_again(rows, http_files, small_parts, monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setattr(objects, "SILENCE_S", 0.5)
    fsspec.get_filesystem_class("http").clear_instance_cache()  # others wait longer
    with http_files({"/rows.svm": rows}) as server:
        server.silences = 1
        assert read_whole(f"{server.url}/rows.svm") == rows
        assert server.silences == 0
    fsspec.get_filesystem_class("http").clear_instance_cache()


def test_a_program_that_ends_waits_for_no_answer(rows, http_files, small_parts):
    with http_files({"/rows.svm": rows}) as server:
        raw = RawFile(f"{server.url}/rows.svm")
        server.silences = 1
        assert raw.read(1)
        asking = [thread for thread in threading.enumerate() if thread.name.startswith("fetch")]
        raw.close()
        assert asking
        assert all(thread.daemon for thread in asking)


def test_a_server_that_sends_no_parts(rows, http_files, small_parts):
    with http_files({"/rows.svm": rows, "/few": b"1 1:1\n"}, sends_parts=False) as server:
        assert read_whole(f"{server.url}/few") == b"1 1:1\n"
        with pytest.raises(StorageError, match="does not send parts of files"):
            read_whole(f"{server.url}/rows.svm")


@pytest.mark.parametrize("cuts", [1, 3])
def test_a_server_that_sends_no_parts_is_asked_again(rows, http_files, cuts):
    with http_files({"/rows.svm": rows}, sends_parts=False) as server:
        proxy = servers.CuttingProxy(server.url)
        raw = RawFile(f"{proxy.url}/rows.svm")
        proxy.cut(cuts, after_bytes=len(rows) // 2)
        assert b"".join(iter(raw.read, b"")) == rows
        assert proxy.made == cuts
        raw.finish()
        proxy.close()


def test_a_file_that_changes_while_it_is_read(rows, memory, small_parts):
    memory.pipe_file("/rows.svm", rows)
    raw = RawFile("memory://rows.svm")
    raw.read()
    memory.pipe_file("/rows.svm", rows)
    while raw.read():
        pass
    with pytest.raises(StorageError, match="the file changed while it was read"):
        raw.finish()


def test_a_part_is_not_joined_with_one_of_another_file(rows, memory, small_parts, monkeypatch):
    memory.pipe_file("/rows.svm", rows)
    opened = RemoteObject("memory://rows.svm")
    memory.pipe_file("/rows.svm", rows)

    def cut(*given, **more):
        raise ConnectionResetError("cut")

    monkeypatch.setattr(type(memory), "cat_file", cut)
    with pytest.raises(StorageError, match="the file changed while it was read"):
        opened.read(0, 10)


def test_a_short_part_is_asked_for_again(rows, memory, small_parts, monkeypatch):
    memory.pipe_file("/rows.svm", rows)
    of_memory, answers = type(memory).cat_file, [b"", b"x"]

    def short(self, path, start=None, end=None, **more):
        whole = of_memory(self, path, start=start, end=end, **more)
        return answers.pop() if answers else whole

    monkeypatch.setattr(type(memory), "cat_file", short)
    assert read_whole("memory://rows.svm") == rows
    assert not answers


def test_a_connection_that_never_brings_much(rows, memory, monkeypatch, small_parts):
    memory.pipe_file("/rows.svm", rows)
    monkeypatch.setattr(objects, "_LEAST_PIECE_BYTES", 1 << 12)
    of_memory, asked = type(memory).cat_file, []

    def little(self, path, start=None, end=None, **more):
        asked.append(end - start)
        if end - start > 1 << 14:
            raise ConnectionResetError("cut")
        return of_memory(self, path, start=start, end=end, **more)

    monkeypatch.setattr(type(memory), "cat_file", little)
    assert read_whole("memory://rows.svm") == rows
    assert asked.count(1 << 16) == len(rows) >> 16


def test_without_fsspec(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(UsageError, match=r"pip install 'blocklinear\[remote\]'"):
        blocklinear.check("s3://data/rows.svm")


def test_without_the_package_of_a_system(memory, monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(UsageError, match="gcsfs for gs://"):
        blocklinear.check("gs://data/rows.svm")


def test_an_unknown_system(memory):
    with pytest.raises(UsageError, match=r"nothing://data/rows\.svm: Protocol not known: nothing"):
        blocklinear.check("nothing://data/rows.svm")


def test_a_store_is_not_made_on_a_url(path):
    with pytest.raises(UsageError, match="s3://data/store: a store is made in a folder"):
        blocklinear.split(path, "s3://data/store")
