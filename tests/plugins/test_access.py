"""The door: Airflow's login and roles before every path of the lineage page, and what every answer carries."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from airflow_web import ASK, PASSWORD, SECRET, TITLE, Server

PATHS = [
    "/",
    "/docs",
    "/openapi.json",
    "/static/app.js",
    "/static/index.html",
    "/static/../static/app.js",
    "/api/me",
    "/api/versions",
    "/api/graph",
    "/api/version?ref=needs",
    "/api/compare?old=needs&new=needs",
    "/api/queries",
    "/api/trace?id=x",
    "/nothing/here",
]
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE"])
def test_nothing_is_shown_without_login(server: Server, path: str, method: str):
    answer = httpx.request(method, f"{server.url}/lineage{path}", timeout=30)
    if (method, path) == ("GET", "/"):
        assert (answer.status_code, answer.headers["location"]) == (303, "/api/v2/auth/login?next=/lineage/")
    else:
        assert answer.status_code == 401
        assert answer.text in ("", '{"detail":"Not authenticated"}')


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_shown_without_the_right(server: Server, path: str):
    with server.client("nobody") as client:
        assert client.get(path).status_code == 403


def test_a_forged_or_broken_token_is_refused(server: Server):
    head, body, mark = server.token("ada").split(".")
    for token in (f"{head}.{body}.{mark[::-1]}", f"{head}.{body}.", "x"):
        for given in ({"headers": {"Authorization": f"Bearer {token}"}}, {"cookies": {"_token": token}}):
            assert httpx.get(f"{server.url}/lineage/api/versions", timeout=30, **given).status_code in (401, 403)


def test_cookie_and_bearer_both_open_the_door(server: Server):
    cookie = {"_token": server.token("vera")}
    assert httpx.get(f"{server.url}/lineage/", cookies=cookie, timeout=30).status_code == 200
    with server.client("vera") as client:
        assert {client.get(path).status_code for path in PATHS if "nothing" not in path} <= {200, 400}
        assert client.get("/nothing/here").status_code == 404


def test_sql_is_for_those_who_may_trigger_runs(server: Server):
    with server.client("vera") as viewer, server.client("ada") as user:
        assert viewer.get("/api/me").json() == {"name": "vera", "may_sql": False, "ask_url": ASK}
        assert viewer.post("/api/sql", json={"sql": "SELECT 1"}).status_code == 403
        assert viewer.post("/api/sql?dag_id=x", json={"sql": "SELECT 1"}).status_code == 403
        assert user.get("/api/me").json() == {"name": "ada", "may_sql": True, "ask_url": ASK}
        assert user.post("/api/sql", json={"sql": "SELECT 1 AS x"}).json()["rows"] == [[1]]


@pytest.mark.parametrize(
    "sql",
    ["COPY steps TO '/tmp/x.csv'", "FROM read_text('/etc/passwd')", "INSTALL httpfs", "SELECT 1; DROP TABLE steps",
     "FROM read_text('/proc/self/environ')", "SET lock_configuration = false"],
)  # fmt: skip
def test_hostile_sql_is_refused_over_http(server: Server, sql: str):
    with server.client("ada") as client:
        answer = client.post("/api/sql", json={"sql": sql})
        assert answer.status_code == 400 and "detail" in answer.json()
        assert client.post("/api/sql", json={"sql": "SELECT count(*) FROM steps"}).json()["rows"][0][0] > 0


def test_an_endless_statement_does_not_hold_up_the_server(server: Server):
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
    with server.client("ada") as client:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(client.post, "/api/sql", json={"sql": endless})
            assert client.get("/api/graph").status_code == 200
            assert not asked.done(), "it ends when its time is up, long after"


def test_another_sites_page_can_send_no_statement(server: Server):
    cookie = {"_token": server.token("ada")}
    body = '{"sql": "SELECT 1"}'
    url = f"{server.url}/lineage/api/sql"
    cases = [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        (JSON | {"sec-fetch-site": "cross-site"}, 403),
        (JSON | {"sec-fetch-site": "same-site"}, 403),
        (JSON | {"sec-fetch-site": "same-origin"}, 200),
    ]
    for headers, status in cases:
        assert httpx.post(url, content=body, headers=headers, cookies=cookie, timeout=30).status_code == status, headers
    preflight = httpx.options(url, headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"})
    assert "access-control-allow-origin" not in preflight.headers
    login = httpx.post(f"{server.url}/auth/token", json={"username": "ada", "password": PASSWORD}, timeout=30)
    assert login.status_code == 201


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/api/graph", "/nothing"])
def test_every_answer_keeps_foreign_code_and_frames_out(server: Server, path: str):
    with server.client("ada") as client, server.client() as stranger:
        for headers in (client.get(path).headers, stranger.get(path).headers):
            policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
            assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
            assert policy["script-src"] == policy["style-src"] == policy["frame-ancestors"] == "'self'"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "SAMEORIGIN"


@pytest.mark.parametrize("path", ["%2e%2e/access.py", "..%2f..%2flineage_plugin.py", "/etc/passwd"])
def test_static_files_are_those_of_the_page_only(server: Server, path: str):
    with server.client("ada") as client:
        assert client.get(f"/static/{path}").status_code in (404, 405)


WRONG = ["../../etc/passwd", "needs@../x", "/etc/passwd", "needs@\x00", "NEEDS", "nothing", TITLE]


@pytest.mark.parametrize("ref", WRONG)
def test_a_wrong_name_is_told_and_leads_nowhere(server: Server, ref: str):
    with server.client("ada") as client:
        for path, name in (("/api/version", "ref"), ("/api/graph", "focus")):
            answer = client.get(path, params={name: ref})
            assert answer.status_code == 400 and answer.headers["content-type"] == "application/json"


def test_the_api_describes_itself_and_tells_no_secret(server: Server):
    with server.client("ada") as client:
        paths = client.get("/openapi.json").json()["paths"]
        assert {p.removeprefix("/api/") for p in paths} == {
            "me", "versions", "graph", "version", "compare", "queries", "trace", "sql",
        }  # fmt: skip
        texts = [client.get(path).text for path in PATHS]
        texts.append(client.post("/api/sql", json={"sql": "FROM duckdb_settings()"}).text)
        assert not any(SECRET in text or PASSWORD in text for text in texts)
        plugins = client.get(f"{server.url}/api/v2/plugins").json()["plugins"]
        (mine,) = [p for p in plugins if p["name"] == "retriever_foundry_lineage"]
        assert mine["external_views"][0]["href"] == "/lineage/"
    assert SECRET not in (server.home / "log.txt").read_text()
