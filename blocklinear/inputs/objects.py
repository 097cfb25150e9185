"""A file on a URL, whose parts are asked for one by one: fsspec's file systems, with repetition.

A request that brought no answer is made again, a few times: for the size of a file, and for its
parts. A part that did not come, or came cut short, is asked for again in pieces; before that, the
file is compared with what it was, since parts of two files make none.
"""

import re
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from threading import Thread
from typing import Any, TypeVar

from blocklinear.errors import BlocklinearError, StorageError, UsageError
from blocklinear.inputs.urls import shown_name, without_secrets

LIBRARY_BYTES = 48 << 20
"""What the libraries of a file system take: s3fs, the largest, 42 MB after its first request."""
RETRY_AFTER_S = (0.2, 1.0, 5.0)
"""How long to wait before a request is made again. Most libraries repeat requests themselves:
this is for what they do not repeat, and for networks that are gone for some seconds."""
SILENCE_S = 30.0
"""How long a server of HTTP may send nothing before its connection is given up."""
_LEAST_PIECE_BYTES = 256 << 10
"""What is asked for again is not less, unless it was before."""
_VERSION_FIELDS = (
    "size", "ETag", "etag", "mtime", "ino", "LastModified", "last_modified", "Last-Modified",
    "updated", "modified", "created", "generation", "md5Hash", "Content-MD5", "VersionId",
)  # fmt: skip
"""What the file systems tell of a version of a file: those that are there are compared."""
_RANGE = re.compile(r"bytes[ =](\d+)-(\d+)")
_LONGEST_REASON = 300  # characters
_FETCH = (
    "copy it to this machine first, a store as a whole folder; or pipe text in: "
    "`curl URL | blocklinear split - STORE`"
)
_POLL_S = 0.1  # between looks at whether reading was stopped
T = TypeVar("T")


def begun(request: Callable[[], T]) -> Future[T]:
    """Begin a request in a thread that a program which ends does not wait for."""
    coming: Future[T] = Future()

    def ask() -> None:
        try:
            coming.set_result(request())
        except BaseException as error:
            coming.set_exception(error)

    Thread(target=ask, name="fetch", daemon=True).start()
    return coming


def _file_system(url: str) -> tuple[Any, str]:
    """Return the file system of fsspec for a URL, and the path in it.

    Raises
    ------
    UsageError
        If fsspec or the package for this kind of URL is not installed, or the kind is unknown.
    Exception
        Of the library, if the file system cannot be reached.
    """
    name = shown_name(url)
    try:
        import fsspec.core
    except ImportError as error:
        raise UsageError(
            f"{name}: URLs are read by fsspec, which cannot be imported: {error}",
            "pip install 'blocklinear[remote]'",
        ) from error
    how = {}
    if url.lower().startswith(("http://", "https://")):
        how["get_client"] = _http_client
    try:
        system, path = fsspec.core.url_to_fs(url, **how)
    except ImportError as error:
        raise UsageError(
            f"{name}: a package for URLs of this kind is missing: {error}",
            "install it: s3fs for s3://, gcsfs for gs://, adlfs for abfs://, aiohttp for https://",
        ) from error
    except ValueError as error:
        raise UsageError(
            f"{name}: {without_secrets(str(error))}", "write s3://, gs://, abfs:// or https://"
        ) from error
    return system, path


async def _http_client(**how: Any) -> Any:
    """Return what fsspec makes requests of HTTP with: it compares what is sent with what was asked.

    The libraries do not, and bytes from another place of the file would be taken for those. It asks
    for the bytes of the file as they are: of a file that a server compresses on its way, a part is
    another one. And it waits for the next bytes, and not five minutes for all of a part.
    """
    import aiohttp
    from fsspec.implementations.http import get_client

    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(_refuse_other_part)
    ours = {
        "headers": {"Accept-Encoding": "identity"},
        "timeout": aiohttp.ClientTimeout(total=None, sock_connect=SILENCE_S, sock_read=SILENCE_S),
    }
    traces = [*how.get("trace_configs", ()), trace]
    return await get_client(**ours | how | {"trace_configs": traces})


async def _refuse_other_part(session: Any, context: Any, found: Any) -> None:
    asked = _RANGE.match(found.headers.get("Range", ""))
    sent = _RANGE.match(found.response.headers.get("Content-Range", ""))
    if asked and sent and asked.groups() != sent.groups():
        raise _OtherPart(
            f"bytes {'-'.join(sent.groups())} came where {'-'.join(asked.groups())} were asked for"
        )


class MissingError(StorageError):
    """There is no file at a URL."""


class _CutShort(Exception):
    """Fewer bytes came than were asked for."""


class _OtherPart(Exception):
    """Another part of the file came than the one that was asked for."""


class RemoteObject:
    """A file on a URL as it was when it was opened.

    UsageError is raised if fsspec or the package for this kind of URL is not installed, or the kind
    is unknown. StorageError is raised if the file cannot be reached, is not there, is a folder, or
    must not be read; or if `halt` said so.

    Parameters
    ----------
    halt : callable           whether to give up: asked while there is no answer

    Attributes
    ----------
    name : str                without what gives access, for messages
    size : int
    version : tuple           what changes when the file does
    """

    def __init__(self, url: str, halt: Callable[[], bool] = lambda: False) -> None:
        self.name = shown_name(url)
        self._halt, self._stopped = halt, False
        # in this thread: fsspec keeps what it opened, with its connections, for each thread
        self._system, self._path = self._ask(
            lambda _: _file_system(url), "opening it failed", apart=False
        )
        info = self._ask(lambda _: self._system.info(self._path), "asking for its size failed")
        if info.get("type") == "directory":
            raise StorageError(f"{self.name}: is a folder", "name the files in it")
        if info.get("size") is None:
            raise StorageError(
                f"{self.name}: the server does not tell the size of the file",
                _FETCH,
            )
        self.size = int(info["size"])
        self.version = _version_of(info)

    def _ask(self, request: Callable[[int], T], what: str, apart: bool = True) -> T:
        """Return what a request brings; one that brings no answer is made again, a few times.

        That there is no such file, or that it must not be read, is an answer.

        BlocklinearError is raised as by `request`; StorageError if the answer is a refusal, there
        is none, or reading was stopped.

        Parameters
        ----------
        request : callable        it is given how many times it has failed before
        what : str                what has failed, for a message
        apart : bool              make it in another thread, as a server may be silent for long
                                  after `stop`
        """
        failures = 0
        while True:
            self._refuse_stopped()
            try:
                if not apart:
                    return request(failures)
                return self.answer(begun(partial(request, failures)))
            except BlocklinearError:
                raise
            except Exception as error:  # each library has its own
                if _is_refusal(error) or _is_missing(error):
                    raise _refused(self.name, error) from error
                if failures == len(RETRY_AFTER_S):
                    raise StorageError(
                        f"{self.name}: {what}, {failures + 1} times: {_reason(_cause_of(error))}",
                        "check the network, the URL and the credentials, and do it again",
                    ) from error
            self.answer(begun(partial(time.sleep, RETRY_AFTER_S[failures])))
            failures += 1

    def answer(self, coming: Future[T]) -> T:
        """Return what comes of a request.

        Raises
        ------
        StorageError
            If reading was stopped.
        Exception
            As the request does.
        """
        while not wait([coming], _POLL_S).done:
            self._refuse_stopped()
        return coming.result()

    def _refuse_stopped(self) -> None:
        if self._stopped or self._halt():
            raise StorageError(f"{self.name}: reading was stopped")

    def require_parts(self) -> None:
        """Refuse a server that would send the whole file for each part of it.

        Raises StorageError.
        """

        def request(failures: int) -> None:
            try:
                with self._system.open(self._path, "rb") as stream:
                    stream.seek(self.size - 1)
                    stream.read(1)
            except ValueError as error:
                raise StorageError(
                    f"{self.name}: the server does not send parts of files",
                    _FETCH,
                ) from error

        self._ask(request, "asking for a part of it failed")

    def read(self, start: int, n_bytes: int) -> bytes:
        """Return a part of the file, asking again where it does not come whole.

        Then it is asked for in pieces, each a quarter of the one that did not come, so that a
        connection that is cut again and again brings the part all the same.

        StorageError is raised if a piece does not come, or the file has changed.
        """
        found, piece_bytes = bytearray(), n_bytes

        def request(failures: int) -> bytes:
            nonlocal piece_bytes
            if failures:
                piece_bytes = max(piece_bytes // 4, min(piece_bytes, _LEAST_PIECE_BYTES))
                self._compare()
            first, asked = start + len(found), min(piece_bytes, n_bytes - len(found))
            data: bytes = self._system.cat_file(self._path, start=first, end=first + asked)
            if len(data) == self.size > asked:  # of a server that sends no parts
                return data[first : start + n_bytes]
            if len(data) != asked:
                raise _CutShort(f"{len(data)} bytes came where {asked} were asked for")
            return data

        while len(found) < n_bytes:
            found += self._ask(request, f"reading failed at byte {start + len(found)}")
        return bytes(found)

    def refuse_change(self) -> None:
        """Raise StorageError if there is another file by now, or that cannot be found out."""
        self._ask(lambda _: self._compare(), "comparing it with what was read failed")

    def _compare(self) -> None:
        """Raise StorageError if there is another file by now; whatever prevents that comes too."""
        self._system.invalidate_cache()
        if _version_of(self._system.info(self._path)) != self.version:
            raise StorageError(f"{self.name}: the file changed while it was read", "read it again")

    def stop(self) -> None:
        """Make whoever waits for a request give up, and nobody make another one."""
        self._stopped = True


def read_small(url: str, most_bytes: int) -> bytes:
    """Return the content of a file of at most `most_bytes`.

    UsageError and StorageError are raised as by `RemoteObject`; or if it is larger, or does not
    come.
    """
    found = RemoteObject(url)
    if found.size > most_bytes:
        raise StorageError(f"{found.name}: has {found.size} bytes, more than it can have")
    return found.read(0, found.size)


def _refused(name: str, error: BaseException) -> StorageError:
    """Return the error for a file that is not there, or must not be read."""
    if _is_refusal(error):
        return StorageError(
            f"{name}: no permission to read it: {_reason(error)}",
            "give credentials that may read it, as the library for such URLs takes them",
        )
    return MissingError(
        f"{name}: there is no such file: {_reason(error)}", "check the bucket and the name"
    )


def _cause_of(error: BaseException) -> BaseException:
    """Return the true failure where fsspec reports it as a missing file."""
    cause = error.__cause__ if isinstance(error, FileNotFoundError) else None
    return cause or error


def _is_refusal(error: BaseException | None) -> bool:
    """Say whether access was refused; some libraries report that as a missing file."""
    while error is not None:
        if isinstance(error, PermissionError) or getattr(error, "status", None) in (401, 403):
            return True
        error = error.__cause__
    return False


def _is_missing(error: BaseException) -> bool:
    """Say whether a server answered that there is no such file.

    For HTTP fsspec reports any failure as a missing file, and has the true one as its cause.
    """
    cause = error.__cause__
    answered = isinstance(cause, FileNotFoundError) or hasattr(cause, "response")
    not_found = cause is None or answered or getattr(cause, "status", None) == 404
    missing = isinstance(error, FileNotFoundError | NotADirectoryError)  # a file is no folder
    return missing and not_found


def _version_of(info: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(info[name])) for name in _VERSION_FIELDS if info.get(name) is not None)


def _reason(error: BaseException) -> str:
    """Return what an error says in one line, without secrets."""
    text = " ".join(without_secrets(str(error)).split()) or type(error).__name__
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."
