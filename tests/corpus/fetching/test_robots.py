from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from protego import Protego

from pipeline_tasks.corpus.fetching.robots import for_agent
from tests.corpus.fetching.parts import PDF, fetch_all
from tests.corpus.web import Page, Web, answer, serving

RULES = (
    b"User-agent: *\nDisallow: /\n\nUser-agent: Toy-Bot\nDisallow: /secret/\nAllow: /secret/open*\nCrawl-delay: 0.2\n"
)


def text(body: bytes, status: int = 200) -> Page:
    return answer(status, body, "text/plain")


def ends(folder: Path, web: Web, *paths: str, **settings: object) -> list[str]:
    """Reason of each path, empty for a document."""
    found = fetch_all(folder, [web.url + path for path in paths], **settings)
    return [found[web.url + path].reason for path in paths]


def test_rules_are_those_for_our_name(tmp_path: Path):
    paths = ("/a.pdf", "/secret/a.pdf", "/secret/open.pdf")
    with serving({"/robots.txt": text(RULES)} | {path: answer(200, PDF) for path in paths}) as web:
        assert ends(tmp_path / "toy", web, *paths) == ["", "robots_denied", ""]
        assert web.hits["/secret/a.pdf"] == 0
        assert ends(tmp_path / "other", web, *paths, user_agent="somebody else") == ["robots_denied"] * 3
    assert {headers["User-Agent"] for _, headers in web.asked} == {
        "toy-bot/1.0 (+https://example.org)",
        "somebody else",
    }


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (text(b"", 404), ""),
        (text(RULES, 403), ""),
        (text(b"", 500), "robots_unreachable"),
        (text(b"", 429), "robots_unreachable"),
        (answer(302, Location="/elsewhere.txt"), "robots_denied"),
        (answer(302, Location="/robots.txt"), ""),
        (answer(302, Location="http://169.254.169.254/"), "private_address"),
        (text(b"\xef\xbb\xbfUser-agent: *\r\nDisallow: /"), "robots_denied"),
        (text(b"<html>\xff\xfe nonsense"), ""),
        (answer(302, Location="http://["), ""),
        (answer(302, Location="//[zz]/r"), ""),
        (answer(200, gzip.compress(b"User-agent: *\nDisallow: /"), **{"Content-Encoding": "gzip"}), "robots_denied"),
        (answer(200, RULES, **{"Content-Encoding": "br"}), "bad_encoding"),
        (text(b"User-agent: *\nRequest-rate: 1/" + b"9" * 400), ""),
        (text(b"User-agent: *\nRequest-rate: " + b"9" * 400 + b"/1d"), ""),
        (text(b"#" * 600_000 + b"\nUser-agent: *\nDisallow: /"), ""),
    ],
)
def test_what_an_answer_to_robots_txt_means(tmp_path: Path, page, reason):
    elsewhere = text(b"User-agent: *\nDisallow: /")
    with serving({"/robots.txt": page, "/elsewhere.txt": elsewhere, "/a.pdf": answer(200, PDF)}) as web:
        assert ends(tmp_path, web, "/a.pdf") == [reason]
    assert web.hits["/a.pdf"] == (not reason)


@pytest.mark.parametrize("part", ["parse", "can_fetch"])
def test_what_the_parser_cannot_take_ends_its_own_site_alone(tmp_path: Path, monkeypatch, part):
    def fails(*_: object) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr(Protego, part, fails)
    with serving({"/robots.txt": text(RULES), "/a.pdf": answer(200, PDF)}) as web:
        assert ends(tmp_path, web, "/a.pdf") == ["robots_unreachable"]


def test_a_redirect_is_held_against_the_rules_of_where_it_leads(tmp_path: Path):
    with serving({"/robots.txt": text(b"User-agent: *\nDisallow: /"), "/b.pdf": answer(200, PDF)}) as strict:
        with serving({"/a.pdf": answer(302, Location=f"{strict.url}/b.pdf")}) as web:
            assert ends(tmp_path, web, "/a.pdf") == ["robots_denied"]
    assert dict(strict.hits) == {"/robots.txt": 1}


def test_a_site_is_asked_once_for_its_rules_also_after_a_kill(tmp_path: Path):
    with serving({"/robots.txt": text(b"User-agent: *\nDisallow: /b"), "/a.pdf": answer(200, PDF)}) as web:
        assert ends(tmp_path, web, "/a.pdf", "/b.pdf") == ["", "robots_denied"]
        (tmp_path / "outcomes.jsonl").unlink()
        assert ends(tmp_path, web, "/a.pdf", "/b.pdf") == ["", "robots_denied"]
    assert web.hits == {"/robots.txt": 1, "/a.pdf": 2}


FILES = [
    RULES.decode(),
    "User-agent: Toy-Bot\nUser-agent: other\nDisallow: /a\n\nUser-agent: other\nDisallow: /b\nUser-agent: *\nAllow: /",
    "useragent: toy # ours\nDisallow: /a\nuser agent toy-bot\nDisallow: /b\nUser-agent: bot\nDisallow: /c\n",
    "user-agent: a\nuser-agent: toy-bot*\nCrawl-delay: 3\nUser-agent:\nDisallow: /\n\nDisallow: /x",
    "User-agent: *\nDisallow: /a\nUser-agent other:\nDisallow: /b\nuser  agent: x\nDisallow: /c",
    "user-agent: *\nDisallow: /a\nuser-agent x: y\nDisallow: /x",
    "User-agent  a:b\nDisallow: /a\nuser  agent toy-bot # c: d\nDisallow: /b\nUser-agent : other\nDisallow: /c",
    "Sitemap: http://a/user-agent: x\nUser-agent: not-toy-bot\nDisallow: /\n",
]


@pytest.mark.parametrize("text_of_file", FILES)
@pytest.mark.parametrize("agent", ["toy-bot", "other", "somebody"])
def test_names_of_others_are_left_out_and_the_rules_are_the_same(text_of_file, agent):
    whole, ours = Protego.parse(text_of_file), Protego.parse(for_agent(text_of_file, agent))
    for path in ("/", "/a", "/b", "/c", "/x", "/secret/a", "/secret/open"):
        assert ours.can_fetch(f"http://h{path}", agent) == whole.can_fetch(f"http://h{path}", agent), path
    assert ours.crawl_delay(agent) == whole.crawl_delay(agent)


def test_many_names_come_to_few():
    names = [f"bot-{n}" for n in range(10_000)] + ["o" * n for n in range(1, 40)] + ["*"]
    read = for_agent("\n".join(f"User-agent: {name}" for name in names) + "\nDisallow: /", "o" * 40)
    assert len(set(read.splitlines())) <= 11
    assert not Protego.parse(read).can_fetch("http://h/", "o" * 40)
