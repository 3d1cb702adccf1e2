from __future__ import annotations

import pytest

from pipeline_tasks.corpus.urls import canonical_url, joined, names_user


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("http://example.org", "http://example.org/"),
        ("HTTP://Example.ORG/A/b.PDF", "http://example.org/A/b.PDF"),
        ("  http://example.org/a.pdf\t", "http://example.org/a.pdf"),
        ("http://example.org:80/a.pdf", "http://example.org/a.pdf"),
        ("https://example.org:443/a.pdf", "https://example.org/a.pdf"),
        ("http://example.org:443/a.pdf", "http://example.org:443/a.pdf"),
        ("http://example.org:0/a.pdf", "http://example.org:0/a.pdf"),
        ("http://example.org:/a.pdf", "http://example.org/a.pdf"),
        ("http://example.org/a.pdf#page=3", "http://example.org/a.pdf"),
        ("http://example.org/a.pdf?v=2#top", "http://example.org/a.pdf?v=2"),
        ("http://[::1]:8080/a.pdf", "http://[::1]:8080/a.pdf"),
        ("http://[2001:DB8::1]:80/a.pdf", "http://[2001:db8::1]/a.pdf"),
        ("http://example.org/b/../%7euser/./a.pdf", "http://example.org/~user/a.pdf"),
        ("http://example.org/a%2fb%e4.pdf", "http://example.org/a%2Fb%E4.pdf"),
        ("http://ex\u00e4mple.org/\u00e4 b.pdf", "http://xn--exmple-cua.org/%C3%A4%20b.pdf"),
        ("http://example.org/a.pdf?z=1&a=\u00e4 |", "http://example.org/a.pdf?z=1&a=%C3%A4%20%7C"),
        ("http://example.org/a.pdf?", "http://example.org/a.pdf"),
        ("http://example.org/a\\b.pdf", "http://example.org/a/b.pdf"),
        ("http://example.org/a+b;v=1.pdf", "http://example.org/a+b;v=1.pdf"),
        ("http://\udcff/a.pdf", None),
        ("https://\\x", None),
        ("FILE:///data/a%20b.pdf", "file:///data/a%20b.pdf"),
        ("file:///data/a b.pdf", "file:///data/a%20b.pdf"),
        ("file:///data/../data/./a%7eb.pdf", "file:///data/a~b.pdf"),
        ("file:///data/caf%e9.pdf", "file:///data/caf%E9.pdf"),
        ("http://www..m\u00fcnchen.de/a.pdf", None),
        ("http://" + "\u00fc" * 70 + ".de/a.pdf", None),
        ("http://a b.org/a.pdf", None),
        ("http://user@example.org/a.pdf", None),
        ("http://user:secret@example.org/a.pdf", None),
        ("http://:secret@example.org/a.pdf", None),
        ("http://[::1/a.pdf", None),
        ("http://example.org:99999/", None),
        ("http://example.org:port/", None),
        ("http://\u2100.org/", None),
        ("http:///a.pdf", None),
        ("//example.org/a.pdf", None),
        ("ftp://example.org/a.pdf", None),
        ("mailto:somebody@example.org", None),
        ("javascript:alert(1)", None),
        ("file:", None),
        ("a.pdf", None),
        ("", None),
    ],
)
def test_canonical_url(url, canonical):
    assert canonical_url(url) == canonical
    if canonical:
        assert canonical_url(canonical) == canonical


@pytest.mark.parametrize("address", ["http://[", "//[zz]/r", "http://www..m\u00fcnchen.de/r", "mailto:a@b.org"])
def test_what_a_page_writes_may_be_no_address(address):
    assert joined("http://example.org/a/b.pdf", address) is None
    assert joined("http://example.org/a/b.pdf", "../c.pdf") == "http://example.org/c.pdf"


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("https://alice:hunter2@host/list.txt", True),
        (" HTTPS://alice@host", True),
        ("https://alice:hun/ter2@host/list.txt", True),
        ("ftp://alice:hunter2@host/", True),
        ("https://[alice:hunter2@host/", True),
        ("https://host/package@1.0/list.txt", False),
        ("https://host/list.txt?by=a@b.org", False),
        ("/data/a@b.org/list.txt", False),
        ("http://[::1", False),
    ],
)
def test_a_user_in_an_address_is_seen(text, does):
    assert names_user(text) == does
