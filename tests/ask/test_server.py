"""The page's server: this machine alone, this page alone, and nothing but what it is meant to give."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from pipeline_tasks.ask.corpus import open_corpus
from pipeline_tasks.ask.server import serving
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.domains.questions import read_questions
from tests.ask.conftest import HOSTILE
from tests.core.erasure.library import take_down

GIVEN = {"question": "is the road safe?", "intent": "qa", "passage_id": "p-flood", "grade": 2}
GIVEN |= {"evidence": "A road under flood water may be gone."}


@pytest.fixture(scope="module")
def served(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, Path]]:
    own = Path(shutil.copytree(made, tmp_path_factory.mktemp("served"), dirs_exist_ok=True))
    store, saved = LocalStore(own / "store"), own / "questions.jsonl"
    with (
        serving(open_corpus(store, Ref.parse("passages")), Reader(store), ["bm25"], saved) as (url, _),
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield client, saved


@pytest.fixture
def client(served) -> httpx.Client:
    return served[0]


@pytest.fixture
def saved(served) -> Iterator[Path]:
    yield served[1]
    served[1].unlink(missing_ok=True)


def test_it_listens_on_loopback_alone_and_every_answer_keeps_foreign_code_out(client):
    assert client.base_url.host == "127.0.0.1"
    for path, status in (
        ("/", 200),
        ("/static/ask.js", 200),
        ("/api/about", 200),
        ("/nothing", 404),
        ("/api/ask", 400),
    ):
        answer = client.get(path)
        assert answer.status_code == status
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff" and "Python" not in answer.headers["server"]
    assert client.put("/").status_code == 501


@pytest.mark.parametrize(
    "path", ["/static/../index.html", "/static/%2e%2e/server.py", "/static/", "//etc/passwd", "/server.py"]
)
def test_no_path_leads_to_another_file(client, path):
    port = client.base_url.port
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
        assert line.makefile("rb").readline().split()[1] == b"404"


def test_an_answer_is_given_with_what_is_judged_so_far(client, saved):
    about = client.get("/api/about").json()
    assert about["systems"] == ["bm25", "model/22m/finetune"] and about["saves_to"] == "questions.jsonl"
    asked = {"question": GIVEN["question"], "intent": "qa", "system": ["bm25", "model/22m/finetune"], "top": 2}
    assert client.get("/api/ask", params=asked).json()["judged"] == {}
    kept = client.post("/api/judgements", json=GIVEN).json()
    assert kept["n_questions"] == 1 and "not held out" in kept["caution"]
    found = client.get("/api/ask", params=asked).json()
    assert [len(column["hits"]) for column in found["columns"]] == [2, 2]
    assert found["judged"]["p-flood"]["grade"] == 2
    story = client.get("/api/trace", params={"id": "p-flood"}).json()
    assert story["story"]["positive_of"] == [{"dataset": "mtt/0.75", "query_id": "q-flood"}]
    assert [row["query_id"] for row in client.get("/api/queries").json()] == ["q-flood"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"system": "/etc"}, "ask 1 to 4 of"), ({"system": "../x"}, "ask 1 to 4 of"), ({"system": []}, "ask 1 to 4 of"),
        ({"question": " "}, "blank"), ({"intent": HOSTILE}, "no intent"), ({"top": "-1"}, "no number"),
        ({"top": "99"}, "1 to 50"), ({"top": "9" * 5000}, "no number"), ({"x": ["1"] * 50}, "fields"),
    ],
)  # fmt: skip
def test_a_question_that_is_none_is_told_so(client, change, said):
    answer = client.get("/api/ask", params={"question": "why?", "intent": "qa", "system": "bm25"} | change)
    assert answer.status_code == 400 and said in answer.json()["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"}, {"Host": "127.0.0.1:1"}, {"Origin": "https://evil.example"}, {"Origin": "null"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
    ],
)  # fmt: skip
def test_another_sites_page_neither_reads_nor_writes(client, saved, headers):
    assert client.get("/api/ask", headers=headers).status_code == 403
    assert client.post("/api/judgements", json=GIVEN, headers=headers).status_code == 403
    assert not saved.exists()
    leads_here = client.get("/", headers=headers).status_code
    assert leads_here == (200 if "Sec-Fetch-Site" in headers else 403)


def test_only_a_judgement_is_written(client, saved):
    form = {"content": b"{}", "headers": {"content-type": "text/plain"}}
    assert client.post("/api/judgements", **form).status_code == 415
    assert client.post("/api/judgements", content=b"x" * 70_000).status_code == 413
    with socket.create_connection((client.base_url.host, client.base_url.port)) as raw:
        raw.sendall(b"POST /api/judgements HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 413")
    for change in ({"grade": 9}, {"grade": "2; rm"}, {"evidence": "not in it"}, {"passage_id": "../../x"}, {"more": 1}):
        assert client.post("/api/judgements", json=GIVEN | change).status_code == 400
    assert client.post("/api/judgements", content=b"{", headers={"content-type": "application/json"}).status_code == 400
    assert not saved.exists()


def test_nothing_is_written_unless_a_file_is_named(corpus, reader, tmp_path):
    before = sorted(tmp_path.iterdir())
    with serving(corpus, reader, [], None) as (url, _):
        answer = httpx.post(f"{url}api/judgements", json=GIVEN)
    assert answer.status_code == 400 and "--save" in answer.json()["detail"] and sorted(tmp_path.iterdir()) == before


def test_a_port_that_is_taken_is_named(corpus, reader):
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(InputError, match="--port"):
        with serving(corpus, reader, [], None, other.getsockname()[1]):
            pass


def test_judgements_are_read_back_as_questions(client, saved):
    client.post("/api/judgements", json=GIVEN)
    client.post("/api/judgements", json=GIVEN | {"grade": 0})
    (question,) = read_questions(saved)
    assert [judgement.grade for judgement in question.judgements] == [0]


def test_what_was_erased_since_is_not_answered_nor_written_down(made, tmp_path):
    own = Path(shutil.copytree(made, tmp_path / "own"))
    store, saved = LocalStore(own / "store"), own / "questions.jsonl"
    corpus = open_corpus(store, Ref.parse("passages"))
    with serving(corpus, Reader(store), ["bm25"], saved) as (url, _), httpx.Client(base_url=url, timeout=60) as client:
        asked = {"question": "is the road safe?", "intent": "qa", "system": "bm25"}
        assert client.get("/api/ask", params=asked).status_code == 200
        take_down(store, "d-flood")
        for answer in (client.get("/api/ask", params=asked), client.post("/api/judgements", json=GIVEN)):
            assert answer.status_code == 400 and "has changed since it was opened" in answer.json()["detail"]
    assert not saved.exists()
