import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pipeline_tasks.core.paid.response_store import ResponseStore
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.models.fetch import is_here, weights_of
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.serve_llm import serve

SMALL_LLM = "smollm2-135m-instruct"


class StandInEndpoint:
    """An HTTP endpoint on loopback that plays a script: one (status, body) per request, the last one for ever.

    A body may be a function of the request's. It stands in for failures that a real endpoint cannot be made to show.
    ``seen`` holds every request's path, headers and body. While ``hold`` is set aside (cleared), it accepts requests
    and does not answer. A GET is answered by ``pages``, path -> body, which no request is seen for, or with 404.
    """

    def __init__(self, *script):
        self.script, self.seen, self.hold, self.pages = list(script), [], threading.Event(), {}
        self.hold.set()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.seen.append(
                    {"path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "body": body}
                )
                status, answer = endpoint.script[min(len(endpoint.seen), len(endpoint.script)) - 1]
                endpoint.hold.wait()
                self.say(status, answer(body) if callable(answer) else answer)

            def do_GET(self):
                self.say(200 if self.path in endpoint.pages else 404, endpoint.pages.get(self.path, {}))

            def say(self, status, answer):
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *_):
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def endpoint():
    """Starts stand-in endpoints; ends them with the test."""
    started = []

    def start(*script):
        started.append(StandInEndpoint(*script).__enter__())
        return started[-1]

    yield start
    for one in started:
        one.__exit__()


@pytest.fixture
def responses(tmp_path):
    return ResponseStore(LocalStore(tmp_path / "store"))


@pytest.fixture(scope="session")
def small_llm():
    """The base URL of the real small model, served on this machine."""
    if not is_here(get(SMALL_LLM), settings().cache):
        pytest.skip(f"{SMALL_LLM} is not in {settings().cache}; run `foundry models fetch` first")
    with serve(weights_of(get(SMALL_LLM), settings().cache), alias=SMALL_LLM) as url:
        yield url
