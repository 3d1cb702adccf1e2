"""What a form may make ``list_urls`` read: no secret of the machine, nothing inside the network, nothing endless."""

from __future__ import annotations

import gzip
import threading
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.corpus.crawl import crawl
from pipeline_tasks.corpus.list_urls import list_urls
from pipeline_tasks.corpus.source import entries
from pipeline_tasks.datasets import URLS
from tests.corpus.web import answer, serving
from tests.stores import go, put, reasons, rejects, rows

SECRET = "sk-of-the-llm-0123456789"
LIST = answer(200, b"https://example.org/a.pdf\n", "text/plain")


def everything(store: LocalStore) -> str:
    """All rows and rejects of ``urls``, and all that the store keeps beside its parts, as text."""
    kept = [path.read_text("utf-8") for path in store.root.rglob("*") if path.is_file() and "objects" not in path.parts]
    return f"{rows(store, 'urls')} {rejects(store, 'urls')} {kept}"


def test_a_file_that_is_no_list_leaves_line_numbers_and_none_of_its_content(store: LocalStore, tmp_path: Path):
    environ = tmp_path / "environ"
    environ.write_text(f"OPENAI_API_KEY={SECRET}\0AWS_SECRET_ACCESS_KEY={SECRET}\0\n\n/etc/{SECRET}\n//{SECRET}/x\n")
    go(store, list_urls, source=str(environ))
    assert rows(store, "urls") == []
    assert sorted(row["detail"] for row in rejects(store, "urls").values()) == ["line 1", "line 3", "line 4"]
    assert SECRET not in everything(store)


def test_the_environment_of_the_process_is_no_list(store: LocalStore):
    go(store, list_urls, source="/proc/self/environ")
    assert rows(store, "urls") == []
    assert "PATH=" not in everything(store)


@pytest.mark.parametrize("source", [f"https://alice:{SECRET}@127.0.0.1/list.txt", f" HTTP://alice:{SECRET}@host"])
def test_a_password_in_a_source_is_refused_before_anything_is_told(store: LocalStore, source):
    with pytest.raises(InputError, match="names a user or a password") as caught:
        go(store, list_urls, source=source)
    assert SECRET not in f"{caught.value} {caught.value.__cause__}"
    assert not list(store.keys("lineage"))


def test_a_password_that_a_server_redirects_to_is_not_told(store: LocalStore):
    moved = answer(302, Location=f"https://alice:{SECRET}@host/list.txt")
    with serving({"/urls.txt": moved}) as web, pytest.raises(InputError, match=r"bad_redirect to 'https://…@host/"):
        go(store, list_urls, source=f"{web.url}/urls.txt")
    assert SECRET not in str([store.read(key) for key in store.keys("lineage")])


def test_a_line_too_long_for_a_file_name_is_a_reject(store: LocalStore, tmp_path: Path):
    (tmp_path / "list.txt").write_text("x" * 100_000 + "\nhttp://user:secret@example.org/a.pdf\n")
    go(store, list_urls, source=str(tmp_path / "list.txt"))
    assert reasons(store, "urls") == {"missing_file": 1, "bad_url": 1}
    assert "secret@" not in everything(store)


class TestFromAForm:
    @pytest.fixture(autouse=True)
    def form(self, configure, tmp_path: Path) -> Path:
        """A list and a PDF below the one root, secrets outside of it; parameters come from a form."""
        root = tmp_path / "root"
        (root / "deep").mkdir(parents=True)
        (root / "deep" / "a.pdf").write_bytes(b"%PDF-1.7 a")
        (root / "list.txt").write_text("deep/a.pdf\n")
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "secret.pdf").write_bytes(b"%PDF-1.7 secret")
        (tmp_path / "outside" / "list.txt").write_text("https://example.org/a.pdf\n")
        configure(caller="form", source_roots=f"{tmp_path / 'nowhere'}:{root}")
        return root

    @pytest.mark.parametrize("source", ["", "deep", "list.txt"])
    def test_sources_below_a_root_are_read(self, store: LocalStore, form: Path, source: str):
        go(store, list_urls, source=str(form / source))
        assert [row["url"] for row in rows(store, "urls")] == [(form / "deep" / "a.pdf").as_uri()]
        go(store, crawl)
        assert [row["content"] for row in rows(store, "downloads")] == [b"%PDF-1.7 a"]

    @pytest.mark.parametrize(
        "source",
        [
            "/proc/self/environ",
            "/proc/self/cwd",
            "/etc/passwd",
            "/",
            "~/.aws/credentials",
            "~nobody-of-that-name/x",
            "{root}/../outside/list.txt",
            "{root}/../outside",
            "{root}/link-to-list",
            "{root}/link-to-folder",
            "{root}/link-to-proc/self/environ",
            "{root}/loop",
            "file:///etc/passwd",
            "file://{root}/list.txt",
            "a\0b",
        ],
    )
    def test_no_other_source_is(self, store: LocalStore, form: Path, tmp_path: Path, source: str):
        (form / "link-to-list").symlink_to(tmp_path / "outside" / "list.txt")
        (form / "link-to-folder").symlink_to(tmp_path / "outside")
        (form / "link-to-proc").symlink_to("/proc")
        (form / "loop").symlink_to(form / "loop")
        with pytest.raises(InputError, match="FOUNDRY_SOURCE_ROOTS"):
            go(store, list_urls, source=source.format(root=form))

    @pytest.mark.parametrize("source", ["/proc/self/environ", "/dev/zero", "/sys/kernel/uevent_seqnum"])
    def test_a_root_that_holds_the_whole_machine_does_not_open_its_kernel(self, store: LocalStore, configure, source):
        configure(source_roots="/")
        with pytest.raises(InputError, match="FOUNDRY_SOURCE_ROOTS"):
            go(store, list_urls, source=source)

    def test_without_roots_nothing_here_is_a_source(self, store: LocalStore, form: Path, configure):
        configure(source_roots="")
        with pytest.raises(InputError, match="names none"):
            go(store, list_urls, source=str(form))

    def test_a_list_or_a_folder_below_a_root_leads_to_no_file_outside(
        self, store: LocalStore, form: Path, tmp_path: Path
    ):
        secret = tmp_path / "outside" / "secret.pdf"
        (form / "list.txt").write_text(f"{secret}\n{secret.as_uri()}\n../outside/secret.pdf\nlink.pdf\ndeep/a.pdf\n")
        (form / "link.pdf").symlink_to(secret)
        for source in (form / "list.txt", form):
            go(store, list_urls, source=str(source))
            assert [row["url"] for row in rows(store, "urls")] == [(form / "deep" / "a.pdf").as_uri()]
        assert {row["detail"] for row in rejects(store, "urls").values()} == {"link.pdf"}
        (form / "linked").symlink_to(tmp_path / "outside")
        (form / "nothing").symlink_to(tmp_path / "outside" / "nothing")
        refused = [entry.place for entry in entries(str(form), 1000, 1.0) if entry.reason]
        assert refused == ["link.pdf", "linked", "nothing"]

    def test_an_address_that_became_a_link_to_the_outside_is_not_fetched(self, store: LocalStore, form: Path, tmp_path):
        go(store, list_urls, source=str(form))
        (form / "deep" / "a.pdf").unlink()
        (form / "deep" / "a.pdf").symlink_to(tmp_path / "outside" / "secret.pdf")
        go(store, crawl)
        assert rows(store, "downloads") == [] and reasons(store, "downloads") == {"unreadable_file": 1}

    def test_what_the_operator_listed_elsewhere_is_kept_and_not_read(self, store: LocalStore, tmp_path, configure):
        secret = tmp_path / "outside" / "secret.pdf"
        put(store, URLS, [{"url_id": "u", "url": secret.as_uri(), "source": "by hand"}])
        configure(caller="operator")
        go(store, crawl)
        configure(caller="form")
        go(store, crawl, refresh="again")
        assert [row["content"] for row in rows(store, "downloads")] == [b"%PDF-1.7 secret"]


def test_a_list_inside_the_network_is_refused_unless_the_operator_allows_its_host(store: LocalStore, configure):
    with serving({"/urls.txt": LIST}) as web:
        configure(allow_hosts="")
        with pytest.raises(InputError, match=r"private_address.*FOUNDRY_ALLOW_HOSTS"):
            go(store, list_urls, source=f"{web.url}/urls.txt")
        assert not web.asked
        configure(allow_hosts=f"intranet.example, {web.host}")
        go(store, list_urls, source=f"{web.url}/urls.txt")
    assert [row["url"] for row in rows(store, "urls")] == ["https://example.org/a.pdf"]


def test_a_list_does_not_redirect_into_the_network(store: LocalStore, configure):
    with serving({"/inside": LIST}) as inside, serving({}) as web:
        web.pages["/urls.txt"] = answer(302, location=f"{inside.url}/inside")
        web.pages["/file.txt"] = answer(302, location="file:///etc/passwd")
        web.pages["/loop.txt"] = answer(302, location="/loop.txt")
        configure(allow_hosts=web.host)
        for path, reason in (("urls", "private_address"), ("file", "bad_redirect"), ("loop", "redirect_loop")):
            with pytest.raises(InputError, match=reason):
                go(store, list_urls, source=f"{web.url}/{path}.txt")
        assert not inside.asked


def test_a_list_may_move_within_what_is_allowed(store: LocalStore):
    with serving({"/urls.txt": answer(302, location="/new.txt"), "/new.txt": LIST}) as web:
        go(store, list_urls, source=f"{web.url}/urls.txt")
    assert [row["url"] for row in rows(store, "urls")] == ["https://example.org/a.pdf"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_list_without_end_is_refused(store: LocalStore, packed: bool):
    body = b"https://example.org/a.pdf\n" * 50_000
    page = answer(200, gzip.compress(body), **{"Content-Encoding": "gzip"}) if packed else answer(200, body)
    with serving({"/urls.txt": page}) as web, pytest.raises(InputError, match=r"too_large.*max_bytes"):
        go(store, list_urls, source=f"{web.url}/urls.txt", max_bytes=100_000)


def test_a_file_without_end_is_refused(store: LocalStore, tmp_path: Path):
    (tmp_path / "list.txt").write_bytes(b"https://example.org/a.pdf\n" * 50_000)
    with pytest.raises(InputError, match="max_bytes"):
        go(store, list_urls, source=str(tmp_path / "list.txt"), max_bytes=100_000)


def test_a_list_that_drips_is_given_up_and_may_be_asked_again(store: LocalStore):
    over = threading.Event()

    def drip(handler, _):
        handler.send_response(200)
        handler.end_headers()
        while not over.wait(0.01):
            handler.wfile.write(b"#")
            handler.wfile.flush()

    with serving({"/urls.txt": drip}) as web, pytest.raises(TransientError, match="too_slow"):
        try:
            go(store, list_urls, source=f"{web.url}/urls.txt", time_limit_s=0.3)
        finally:
            over.set()
