from pathlib import Path

import pytest

from blocklinear.inputs.urls import is_url, joined, shown_name, without_secrets


@pytest.mark.parametrize("url", ["s3://b/k", "https://h/x?y", "memory://a", "FILE:///tmp/x"])
def test_urls(url):
    assert is_url(url)


@pytest.mark.parametrize("path", ["rows.svm", "-", "/tmp/a:b", "C:/x", "a/s3://b", Path("s3://b")])
def test_paths(path):
    assert not is_url(path)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://bucket/rows.svm", "s3://bucket/rows.svm"),
        ("ftp://me:secret@host/rows", "ftp://host/rows"),
        ("https://h/r.svm?X-Amz-Signature=secret&b=1", "https://h/r.svm"),
        ("403, url='https://u:secret@h/r?sig=secret', no", "403, url='https://h/r', no"),
        ("no URL: a@b?c", "no URL: a@b?c"),
        ("http://me:p@ss'word@host/rows", "http://host/rows"),
        ("https://h/it's.svm?sig=secret", "https://h/it's.svm"),
        ("missing: https://h/my rows.svm?sig=it's. So", "missing: https://h/my rows.svm. So"),
        ("('https://h/a','https://u:secret@h/b?sig=secret')", "('https://h/a','https://h/b')"),
    ],
)
def test_secrets_are_left_out(text, shown):
    assert without_secrets(text) == shown


def test_all_of_a_query_is_left_out_of_the_name_of_a_url():
    assert shown_name("https://me:secret@h/my rows?a=1 se?cret") == "https://h/my rows"


def test_a_path_is_shown_as_it_is():
    assert shown_name("./who@where?") == "./who@where?"


def test_files_in_a_folder():
    assert joined("s3://b/store/", "blocks/b0") == "s3://b/store/blocks/b0"
