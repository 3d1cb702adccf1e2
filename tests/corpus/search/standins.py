"""Stand-ins for search providers: servers on loopback that speak their wire formats and are none of them.

The real ones cannot be asked in a test: they cost money, know no seeds and do not fail on demand. Paths, parameters,
headers, pages, limits and error bodies are those of the providers' public documentation; what is found is invented.
``script`` holds answers to give first, one a request, each ``(status, headers, body)``.
"""

from __future__ import annotations

import json
import re
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

Reply = tuple[int, dict[str, str], bytes]


class StandIn:
    """Serves while the block runs; ``seen`` holds path, parameters and headers of every request."""

    def __init__(self, *script: Reply) -> None:
        self.script, self.seen, self._lock = list(script), [], threading.Lock()
        standin = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16

            def do_GET(self) -> None:  # noqa: N802
                parts = urlsplit(self.path)
                headers = {name.lower(): value for name, value in self.headers.items()}
                params = parse_qsl(parts.query, keep_blank_values=True)
                with standin._lock:
                    standin.seen.append((parts.path, params, headers))
                    first = standin.script.pop(0) if standin.script else None
                    status, more, body = first or standin.answer(parts.path, params, headers)
                with suppress(BrokenPipeError, ConnectionResetError):
                    self.send_response(status)
                    for name, value in {"Content-Type": "application/json", **more}.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, path: str, params: list[tuple[str, str]], headers: dict[str, str]) -> Reply:
        """What the provider would say."""
        raise NotImplementedError

    def __enter__(self) -> StandIn:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def reply(status: int, body: object, **headers: str) -> Reply:
    """An answer in JSON; underscores in header names stand for dashes."""
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(body).encode()


def found(query: str, n: int) -> list[dict]:
    """``n`` results whose addresses tell the query and the rank."""
    slug = re.sub(r"\W+", "-", query.lower()).strip("-")
    return [{"url": f"https://example.org/{slug}/{i}.pdf", "title": f"{query} {i}"} for i in range(1, n + 1)]


class StandInSearXNG(StandIn):
    """SearXNG: ``/search``, ten results a page, an empty page after the last; 403 where JSON is not enabled."""

    def __init__(self, *script: Reply, n: int = 12, per_page: int = 10, formats: tuple[str, ...] = ("json",)) -> None:
        super().__init__(*script)
        self.n, self.per_page, self.formats = n, per_page, formats
        self.silent: list[list[str]] = []

    def answer(self, path, params, headers):
        """A page of results as SearXNG writes them."""
        asked = dict(params)
        if path != "/search" or asked.get("format") not in self.formats:
            return 403, {"Content-Type": "text/html"}, b"<!doctype html><title>403 Forbidden</title>"
        first = (int(asked.get("pageno", "1")) - 1) * self.per_page
        results = [
            result | {"content": "", "engine": "invented", "engines": ["invented"], "score": 1.0, "positions": [1]}
            for result in found(asked["q"].removesuffix(" filetype:pdf"), self.n)[first : first + self.per_page]
        ]
        rest = {"answers": [], "corrections": [], "infoboxes": [], "suggestions": []}
        page = {"query": asked["q"], "number_of_results": 0, "results": results, "unresponsive_engines": self.silent}
        return reply(200, page | rest)


class StandInBrave(StandIn):
    """Brave Search API: the key in a header, 20 results a page and ten pages at most, a quota of answers."""

    def __init__(self, *script: Reply, key: str, n: int = 12, quota: int = 10**6) -> None:
        super().__init__(*script)
        self.key, self.n, self.quota, self.billed = key, n, quota, 0

    def answer(self, path, params, headers):
        """A page of web results, or an ErrorResponse."""
        asked = dict(params)
        if path != "/res/v1/web/search":
            return self.error(404, "NOT_FOUND", "Not found.")
        if headers.get("x-subscription-token") != self.key:
            return self.error(422, "SUBSCRIPTION_TOKEN_INVALID", "The provided subscription token is invalid.")
        count, offset = int(asked.get("count", "20")), int(asked.get("offset", "0"))
        if not 1 <= count <= 20 or not 0 <= offset <= 9 or len(asked["q"]) > 400 or len(asked["q"].split()) > 50:
            return self.error(422, "VALIDATION", "Unable to validate request parameter(s)")
        if self.billed >= self.quota:
            return self.error(429, "QUOTA_LIMITED", "Request quota limit exceeded for plan.")
        self.billed += 1
        results = found(asked["q"].removesuffix(" filetype:pdf"), self.n)
        page = results[offset * count : (offset + 1) * count]
        query = {"original": asked["q"], "more_results_available": (offset + 1) * count < len(results)}
        web = {"web": {"type": "search", "results": page, "family_friendly": True}} if page else {}
        limits = {"X_RateLimit_Limit": "1, 2000", "X_RateLimit_Remaining": "0, 1999", "X_RateLimit_Reset": "1, 1419704"}
        return reply(200, {"type": "search", "query": query, "mixed": {"type": "mixed"}, **web}, **limits)

    @staticmethod
    def error(status: int, code: str, detail: str, **headers: str) -> Reply:
        """An error as Brave words it."""
        error = {"id": "5d832250", "status": status, "code": code, "detail": detail, "meta": {"component": "x"}}
        return reply(status, {"type": "ErrorResponse", "error": error, "time": 1663072993}, **headers)


class StandInCommonCrawl(StandIn):
    """Common Crawl's index server (pywb): one JSON object a line, pages of index blocks, 404 for nothing."""

    def __init__(self, *script: Reply, crawl: str, captures: list[dict], per_page: int = 3) -> None:
        super().__init__(*script)
        self.crawl, self.captures, self.per_page = crawl, captures, per_page

    def answer(self, path, params, headers):
        """The number of pages, or a page of captures that pass the filters."""
        asked = dict(params)
        if path != f"/{self.crawl}-index":
            return reply(404, {"detail": "Not Found"})
        host = asked["url"].removeprefix("*.")
        below = [c for c in self.captures if (urlsplit(c["url"]).hostname or "").endswith(host)]
        pages = -(-len(below) // self.per_page)
        if "showNumPages" in asked:
            return reply(200, {"pages": pages, "pageSize": 5, "blocks": pages}) if pages else self.nothing(asked)
        page = int(asked.get("page", "0"))
        if page >= pages:
            return reply(400, {"message": f"Page {page} invalid: First Page is 0, Last Page is {pages - 1}"})
        lines = below[page * self.per_page : (page + 1) * self.per_page]
        for name, value in params:
            if name == "filter":
                field, _, wanted = value.removeprefix("=").partition(":")
                lines = [line for line in lines if line[field] == wanted]
        fields = asked["fl"].split(",")
        text = "".join(json.dumps({field: line[field] for field in fields}) + "\n" for line in lines)
        return (200, {"Content-Type": "text/x-ndjson"}, text.encode()) if lines else self.nothing(asked)

    @staticmethod
    def nothing(asked: dict[str, str]) -> Reply:
        """What pywb says where no capture fits."""
        return reply(404, {"message": f"No Captures found for: {asked['url']}"})
