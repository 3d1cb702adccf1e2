from __future__ import annotations

import asyncio
from pathlib import Path

import httpcore
import pytest

from pipeline_tasks.corpus.fetching.guard import Guard, is_public
from pipeline_tasks.corpus.fetching.outcomes import Refused
from tests.corpus.fetching.parts import PDF, fetch_all
from tests.corpus.web import answer, serving

PRIVATE = [
    *("127.0.0.1", "127.8.9.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "0.0.0.0", "0.1.2.3"),
    *("169.254.169.254", "100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("::1", "::", "fe80::1", "fe80::1%lo", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1", "2001:0:1::1"),
    *("192.0.0.192", "192.88.99.1", "168.63.129.16", "::ffff:168.63.129.16", "64:ff9b:1::a00:1", "3fff::1"),
]
NUMBERS = ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0", "0x7f.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"]


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_of_the_public_internet(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_what_is(address):
    assert is_public(address)


@pytest.mark.parametrize("host", NUMBERS)
def test_every_spelling_of_loopback_is_refused_before_a_connection(tmp_path: Path, host):
    with serving({"/a.pdf": answer(200, PDF)}) as web:
        url = f"http://{host}:{web.host.split(':')[1]}/a.pdf"
        assert fetch_all(tmp_path, [url], allow_hosts=())[url].reason == "private_address"
    assert not web.asked


def test_only_the_host_that_is_named_may_be_private(tmp_path: Path):
    with serving({"/a.pdf": answer(200, PDF)}) as web, serving({"/a.pdf": answer(200, PDF)}) as other:
        ours, theirs, named = (
            f"{web.url}/a.pdf",
            f"{other.url}/a.pdf",
            f"{web.url}/a.pdf".replace("127.0.0.1", "localhost"),
        )
        ends = fetch_all(tmp_path, [ours, theirs, named], allow_hosts=[web.host])
    assert [ends[url].reason for url in (ours, theirs, named)] == ["", "private_address", "private_address"]


@pytest.mark.parametrize(
    ("allowed", "passes"),
    [("[fd00::5]", True), ("[FD00::5]:8080", True), ("fd00::5", True), ("[fd00::5]:80", False), ("fd00::5:80", False)],
)
def test_an_ipv6_address_is_allowed_as_it_stands_in_urls(allowed, passes):
    guard = Guard([allowed])
    if passes:
        assert asyncio.run(guard.addresses("fd00::5", 8080)) == ["fd00::5"]
    else:
        with pytest.raises(Refused, match="private_address"):
            asyncio.run(guard.addresses("fd00::5", 8080))


@pytest.mark.parametrize("target", ["http://localhost:{port}/b.pdf", "http://[::1]:{port}/b.pdf", "http://10.0.0.1/"])
def test_a_redirect_leads_nowhere_private(tmp_path: Path, target):
    with serving({"/b.pdf": answer(200, PDF)}) as web:
        web.pages["/a.pdf"] = answer(302, Location=target.format(port=web.host.split(":")[1]))
        url = f"{web.url}/a.pdf"
        assert fetch_all(tmp_path, [url])[url].reason == "private_address"
    assert "/b.pdf" not in web.hits


def test_a_name_that_changes_its_address_is_not_followed(tmp_path: Path):
    """DNS rebinding: public when checked, private a moment later; who asks again when connecting reaches the server.

    The public address is of a block that nobody has.
    """
    asked = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["2d00::1"] if len(asked) == 1 else ["127.0.0.1"]

    with serving({"/a.pdf": answer(200, PDF)}) as web:
        url = f"http://rebind.example.org:{web.host.split(':')[1]}/a.pdf"
        ends = fetch_all(tmp_path, [url], resolver=rebinding, timeout_s=0.3)
    assert (ends[url].reason, len(asked), web.asked) == ("private_address", 2, [])


def test_one_private_address_among_public_ones_is_enough():
    async def mixed(host: str, port: int) -> list[str]:
        return ["8.8.8.8", "10.0.0.1"]

    with pytest.raises(Refused, match="private_address"):
        asyncio.run(Guard(resolver=mixed).connect_tcp("example.org", 80))


def test_a_name_is_resolved_once_and_the_connection_goes_there(tmp_path: Path):
    asked = []

    async def resolver(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    with serving({"/a.pdf": answer(200, PDF)}) as web:
        host = f"docs.example.org:{web.host.split(':')[1]}"
        url = f"http://{host}/a.pdf"
        assert fetch_all(tmp_path, [url], allow_hosts=["docs.example.org"], resolver=resolver)[url].end == "fetched"
    assert {headers["Host"] for _, headers in web.asked} == {host}
    assert set(asked) == {"docs.example.org"} and len(asked) <= 2, "one connection for robots.txt and the document"


def test_the_next_address_is_tried_where_one_does_not_answer():
    async def two(host: str, port: int) -> list[str]:
        return ["::1", "127.0.0.1"]

    with serving({}) as web:
        port = int(web.host.split(":")[1])
        stream = asyncio.run(Guard(["example.org"], two).connect_tcp("example.org", port, timeout=5))
    assert stream


def test_a_name_without_an_address():
    async def none(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    with pytest.raises(httpcore.ConnectError, match="no such name"):
        asyncio.run(Guard(resolver=none).connect_tcp("example.org", 80))
