"""A stand-in for a paid language model: ``python llm.py PORT``. It answers with words of the prompt's key sentence.

The same prompt always gets the same answer, after a while. Its log tells each request as it comes, by the sha256 that
the client names it by.
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TAKES_S = 0.7
WORDS = 9


def answer_to(prompt: str) -> str:
    """A question and its answer, as the prompts for questions want them."""
    sentence = prompt.rpartition("Key sentence: ")[2].partition("\n")[0]
    return f" {' '.join(sentence.split()[:WORDS])}\nAnswer: {sentence}"


class Completions(BaseHTTPRequestHandler):
    """The one path of the API that is needed."""

    def do_POST(self) -> None:
        """Answer any request as one for a completion."""
        prompt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["prompt"]
        self.log_message("asked %s", self.headers["Idempotency-Key"])
        time.sleep(TAKES_S)
        choice = {"text": answer_to(prompt), "finish_reason": "stop"}
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": WORDS}
        body = json.dumps({"choices": [choice], "usage": usage, "model": "stand-in"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *_: object) -> None:
        """Say nothing else."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Completions).serve_forever()
