from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest
from pipeline_tasks.corpus.list_urls import list_urls
from tests.corpus.web import answer, serving
from tests.stores import go, reasons, rejects, rows


def test_each_line_of_a_remote_list_is_an_address_or_a_reject(store: LocalStore):
    lines = [
        "# a comment",
        "",
        "b.pdf",
        "/top/a.pdf",
        "http://EXAMPLE.org:80/c.pdf#page=2",
        "http://example.org/c.pdf",
        "../lists/b.pdf",
        "file:///etc/passwd",
        "http://[::1",
        "http://\u2100.org/x.pdf",
        "ftp://example.org/d.pdf",
    ]
    with serving({"/lists/urls.txt": answer(200, "\r\n".join(lines).encode(), "text/plain; charset=utf-8")}) as web:
        go(store, list_urls, source=f"{web.url}/lists/urls.txt")
    listed = rows(store, "urls")
    assert [row["url"] for row in listed] == sorted(
        ["http://example.org/c.pdf", f"{web.url}/lists/b.pdf", f"{web.url}/top/a.pdf"]
    )
    assert all(row["url_id"] == short_id(row["url"]) for row in listed)
    assert {row["source"] for row in listed} == {f"{web.url}/lists/urls.txt"}
    assert reasons(store, "urls") == {"duplicate_url": 2, "bad_url": 4}
    assert {row["detail"] for row in rejects(store, "urls").values() if row["reason"] == "bad_url"} == {
        f"line {number}" for number in (8, 9, 10, 11)
    }


def test_a_file_may_name_files_beside_it(store: LocalStore, tmp_path: Path):
    (tmp_path / "list.txt").write_text("a.pdf\nsub/b%20c.pdf\nhttps://example.org/d.pdf\nabsent.pdf\nsub\n")
    (tmp_path / "sub").mkdir()
    for name in ("a.pdf", "sub/b c.pdf"):
        (tmp_path / name).touch()
    go(store, list_urls, source=str(tmp_path / "list.txt"))
    wanted = [(tmp_path / "a.pdf").as_uri(), (tmp_path / "sub/b c.pdf").as_uri(), "https://example.org/d.pdf"]
    assert [row["url"] for row in rows(store, "urls")] == wanted
    assert {row["detail"]: row["reason"] for row in rejects(store, "urls").values()} == dict.fromkeys(
        ("line 4", "line 5"), "missing_file"
    )


def test_a_list_of_names_names_the_files_that_its_folder_gives(store: LocalStore, tmp_path: Path):
    names = ["./#1.pdf", "a#1.pdf", "a.pdf", "b?c=d.pdf", "e%20f.pdf", "g: h;i.pdf", "é%zz.pdf"]
    (tmp_path / "pdfs/list.txt").parent.mkdir()
    for name in names:
        (tmp_path / "pdfs" / name).touch()
    go(store, list_urls, source=str(tmp_path / "pdfs"))
    wanted = [row["url"] for row in rows(store, "urls")]
    (tmp_path / "pdfs/list.txt").write_text("\n".join(names))
    go(store, list_urls, source=str(tmp_path / "pdfs/list.txt"))
    assert [row["url"] for row in rows(store, "urls")] == wanted and len(wanted) == len(names)
    (tmp_path / "pdfs/list.txt").write_text("a.pdf#page=2\ne f.pdf\n")
    (tmp_path / "pdfs/e%20f.pdf").rename(tmp_path / "pdfs/e f.pdf")
    assert go(store, list_urls, source=str(tmp_path / "pdfs/list.txt"), max_withdrawn=1).counters["rows_out"] == 2


def test_a_folder_gives_its_pdfs_at_any_depth(store: LocalStore, tmp_path: Path):
    folder = tmp_path / "folder"
    for name in ("b.PDF", "a b#1.pdf", "deep/er/c.pdf", "notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    go(store, list_urls, source=str(folder))
    wanted = sorted((folder / name).as_uri() for name in ("b.PDF", "a b#1.pdf", "deep/er/c.pdf"))
    assert [row["url"] for row in rows(store, "urls")] == wanted


def test_one_new_address_is_one_new_part_and_one_gone_is_a_removal(store: LocalStore, tmp_path: Path):
    source = tmp_path / "list.txt"
    names = [f"http://example.org/{i}.pdf" for i in range(5)]

    def refresh(urls: list[str]):
        source.write_text("\n".join(urls))
        outcome = go(store, list_urls, source=str(source), part_rows=2)
        return outcome, load_manifest(store, Ref.parse("urls"))

    _, first = refresh(names)
    again, same = refresh(names)
    assert again.reused and same == first and len(first.parts) == 3
    _, grown = refresh(["http://example.org/0-new.pdf", *names])
    assert grown.parts[:3] == first.parts and [part.rows for part in grown.parts[3:]] == [1]
    assert grown.rows == 6 and grown.inputs == {"previous": [str(first.ref)]}
    _, shrunk = refresh(["http://example.org/0-new.pdf", *names[1:]])
    assert shrunk.parts == grown.parts and shrunk.rows == 5 and len(shrunk.removals) == 1
    _, shrunk = refresh(names[1:])
    assert shrunk.parts == first.parts and shrunk.rows == 4, "a part goes with its last row"
    assert sorted(row["url"] for row in rows(store, "urls")) == names[1:]


def test_new_junk_in_a_list_is_told_although_no_address_changed(store: LocalStore, tmp_path: Path):
    source = tmp_path / "list.txt"
    source.write_text("http://example.org/a.pdf\n")
    go(store, list_urls, source=str(source))
    before = load_manifest(store, Ref.parse("urls"))
    source.write_text("http://example.org/a.pdf\nftp://example.org/b.pdf\n")
    outcome = go(store, list_urls, source=str(source))
    assert load_manifest(store, outcome.ref).parts == before.parts and reasons(store, "urls") == {"bad_url": 1}
    assert outcome.counters["rows_in"] == 2
    assert go(store, list_urls, source=str(source)).ref == outcome.ref


def test_an_empty_list_is_refused_and_the_addresses_stay(store: LocalStore, tmp_path: Path):
    source = tmp_path / "list.txt"
    source.write_text("".join(f"http://example.org/{name}.pdf\n" for name in "abc"))
    before = go(store, list_urls, source=str(source)).ref
    source.write_text("")
    with pytest.raises(InputError, match=r"withdraw 3 of the 3 rows of urls@.* http://example\.org/a\.pdf"):
        go(store, list_urls, source=str(source))
    assert load_manifest(store, Ref.parse("urls")).ref == before
    assert go(store, list_urls, source=str(source), max_withdrawn=1).counters["rows_out"] == 0


def test_a_list_that_was_empty_once_can_fill(store: LocalStore, tmp_path: Path):
    source = tmp_path / "list.txt"
    source.write_text("# nothing yet\n")
    go(store, list_urls, source=str(source))
    source.write_text("http://example.org/a.pdf\n")
    go(store, list_urls, source=str(source))
    assert [row["url"] for row in rows(store, "urls")] == ["http://example.org/a.pdf"]


def test_a_source_that_is_not_there_is_the_callers_mistake(store: LocalStore, tmp_path: Path):
    with pytest.raises(InputError, match="no URL, file or folder"):
        go(store, list_urls, source=str(tmp_path / "missing.txt"))
    with serving({}) as web, pytest.raises(InputError, match="http_404; check source="):
        go(store, list_urls, source=f"{web.url}/urls.txt")


def test_a_pdf_given_as_a_list_is_the_callers_mistake(store: LocalStore, tmp_path: Path):
    (tmp_path / "one.pdf").write_bytes(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3")
    with pytest.raises(InputError, match="not UTF-8"):
        go(store, list_urls, source=str(tmp_path / "one.pdf"))


@pytest.mark.parametrize("source", ["http://[::1", "http://a..b/urls.txt"])
def test_a_source_that_is_no_address_is_the_callers_mistake(store: LocalStore, source):
    with pytest.raises(InputError, match="is no address|is no host name"):
        go(store, list_urls, source=source)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_may_be_asked_again(store: LocalStore, status):
    with serving({"/urls.txt": answer(status)}) as web, pytest.raises(TransientError, match=f"http_{status}"):
        go(store, list_urls, source=f"{web.url}/urls.txt")


def test_a_server_that_is_away_may_be_asked_again(store: LocalStore):
    with serving({}) as web:
        source = f"{web.url}/urls.txt"
    with pytest.raises(TransientError, match="cannot be fetched"):
        go(store, list_urls, source=source)


def test_a_folder_elsewhere_is_told_before_all_of_it_is_paid_again(store: LocalStore, tmp_path: Path):
    for folder in ("pdfs", "sources"):
        for i in range(12):
            (tmp_path / folder / f"part{i % 3}" / f"{i}.pdf").parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / f"part{i % 3}" / f"{i}.pdf").touch()
    (tmp_path / "pdfs/gone.pdf").touch()
    go(store, list_urls, source=str(tmp_path / "pdfs"))
    with pytest.raises(InputError, match=r"withdraw 13 of the 13 rows .*; 12 of them come back under the same name "):
        go(store, list_urls, source=str(tmp_path / "sources"))
    shutil.rmtree(tmp_path / "pdfs")
    (tmp_path / "pdfs").symlink_to(tmp_path / "sources")
    assert go(store, list_urls, source=str(tmp_path / "pdfs")).counters["rows_out"] == 12


def test_a_host_elsewhere_is_told_where_few_addresses_go(store: LocalStore, tmp_path: Path, caplog):
    def refresh(*urls: str) -> str:
        caplog.clear()
        (tmp_path / "list.txt").write_text("\n".join(urls))
        go(store, list_urls, source=str(tmp_path / "list.txt"))
        return caplog.text

    issues = [f"https://b.org/{year}/issue.pdf" for year in range(9)]
    assert not refresh("http://a.org/1.pdf", "http://a.org/get?id=2", *issues[:8])
    told = refresh("https://a.org/old/1.pdf", "https://a.org/get?id=2", *issues[:8])
    assert "withdraws 2 of the 10 rows of urls@" in told and ": 2 of them come back under the same name" in told
    assert not refresh("https://a.org/old/1.pdf", "https://a.org/get?id=3", *issues[1:]), "all issues have one name"
