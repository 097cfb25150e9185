"""Servers of this machine for tests of URLs: S3, HTTP, and a proxy that cuts connections."""

import contextlib
import gzip
import http.server
import os
import re
import socket
import socketserver
import subprocess
import sys
import threading


@contextlib.contextmanager
def s3():
    """Run a server of S3 in a process of its own; hand out its URL."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    environment = os.environ | {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **quiet) as process:
        try:
            lines = iter(process.stderr)
            found = (re.search(r"Running on (http://[0-9.:]+)", line) for line in lines)
            url = next(match[1] for match in found if match)
            # it writes a line for each request, and waits where nobody reads them
            threading.Thread(target=list, args=[lines], daemon=True).start()
            yield url
        finally:
            process.terminate()


class CuttingProxy:
    """Passes connections on to a server, and cuts them where it is told to.

    Attributes
    ----------
    url : str
    cuts : int                how many are still to be made
    made : int                how many were made
    """

    def __init__(self, target):
        self._target = target.removeprefix("http://").split(":")
        self.cuts = self.made = 0
        self._after = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self, times, after_bytes):
        """Cut so many connections, each after it has brought so many bytes."""
        self.cuts, self.made, self._after = times, 0, after_bytes

    def close(self):
        self._listening.close()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection((self._target[0], int(self._target[1])))
                for pair in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source, target, answers):
        brought = 0
        with contextlib.suppress(OSError), source, target:
            while data := source.recv(1 << 14):
                brought += len(data)
                if answers and self.cuts and brought > self._after:
                    self.cuts, self.made = self.cuts - 1, self.made + 1
                    break
                target.sendall(data)
            for end in (source, target):
                end.shutdown(socket.SHUT_RDWR)


class _Files(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self._answer(send=False)

    def do_GET(self):
        self._answer(send=True)

    def _answer(self, send):
        path = self.path.partition("?")[0]
        self.server.requests.append((self.command, path, self.headers.get("Range")))
        status = self.server.statuses.get(path, 200)
        body = self.server.files.get(path, b"")
        if path not in self.server.files:
            status = 404
        accepted = self.headers.get("Accept-Encoding", "identity")
        compressed = send and self.server.compresses and "gzip" in accepted
        body = gzip.compress(body, mtime=0) if compressed else body
        start, stop, whole = 0, len(body), len(body)
        asked = self.headers.get("Range")
        if status == 200 and asked and self.server.sends_parts:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, stop = int(first), min(int(last) + 1 if last else whole, whole)
            status = 206
            if start and self.server.wrong_parts:  # and says so
                self.server.wrong_parts -= 1
                start, stop = start - 1, stop - 1
        self.send_response(status)
        self.send_header("Content-Length", str(stop - start))
        if compressed:
            self.send_header("Content-Encoding", "gzip")
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{whole}")
        self.end_headers()
        if send and start and self.server.silences:
            self.server.silences -= 1
            self.server.ended.wait()
        elif send:
            with contextlib.suppress(OSError):
                self.wfile.write(body[start:stop])

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def http_files(files, sends_parts=True):
    """Serve a dict of path and bytes; hand out the server, whose `url` is that of its root."""

    class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
        daemon_threads = True

        def handle_error(self, request, address):
            pass

    with Server(("127.0.0.1", 0), _Files) as server:
        server.files, server.statuses, server.requests = dict(files), {}, []
        server.sends_parts, server.wrong_parts = sends_parts, 0
        server.compresses, server.silences = False, 0
        server.ended = threading.Event()
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.ended.set()
        server.shutdown()
