import pytest
import servers

from blocklinear.inputs import ahead, objects


@pytest.fixture(scope="session")
def rows():
    """Text of LIBSVM, of 600 kB."""
    lines = (
        f"{1 if i % 3 else -1} {1 + i % 97}:{i % 7}.5 {100 + i % 211}:{i} {400 + i % 5}:0.25\n"
        for i in range(20_000)
    )
    return "".join(lines).encode()


@pytest.fixture
def path(rows, tmp_path):
    """A file with these rows."""
    path = tmp_path / "rows.svm"
    path.write_bytes(rows)
    return path


@pytest.fixture(autouse=True)
def soon_again(monkeypatch):
    """Wait little before a request is made again."""
    monkeypatch.setattr(objects, "RETRY_AFTER_S", (0.01, 0.01, 0.01))


@pytest.fixture
def small_parts(monkeypatch):
    """Ask for 64 kB at a time."""
    monkeypatch.setattr(ahead, "_MOST_PART_BYTES", 1 << 16)
    monkeypatch.setattr(ahead, "_LEAST_PART_BYTES", 1 << 16)


@pytest.fixture(scope="session")
def s3_server():
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    with servers.s3() as url:
        yield url


@pytest.fixture
def s3(s3_server, monkeypatch):
    """A file system of S3 with an empty bucket ``data``, and a proxy to it for what is tested."""
    import s3fs
    from fsspec.config import conf

    proxy = servers.CuttingProxy(s3_server)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    s3fs.S3FileSystem.clear_instance_cache()
    once = {"retries": {"max_attempts": 0}}
    monkeypatch.setitem(conf, "s3", {"endpoint_url": proxy.url, "config_kwargs": once})
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    system = s3fs.S3FileSystem(endpoint_url=s3_server)
    if system.exists("data"):
        system.rm("data", recursive=True)
    system.mkdir("data")
    system.proxy = proxy
    yield system
    proxy.close()
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def memory():
    """The file system ``memory://``, empty."""
    system = pytest.importorskip("fsspec").filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    yield system
    system.store.clear()


@pytest.fixture
def http_files():
    """`servers.http_files`, if there is what reads from HTTP."""
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    return servers.http_files
