"""A writer that has written before: an OpenAI-compatible server that answers from a domain's recording.

``domains/<name>/recordings/<document>.jsonl`` holds what a strong writer answered about a sample document: for an
intent and a sentence that is quoted as its evidence, the need, the query and the positive. A prompt is understood as
any writer would: from its task, its passage and its key sentence. So the recording outlives another chunking (the quote
is looked for in the passage) and another wording of the prompts (they are read from the files that make them). Where
nothing was written, the answer is empty, and the step refuses the row.

    python -m pipeline_tasks.demo.recorded_llm --port 8080     serve in the foreground, until Ctrl-C
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event, Thread
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline_tasks.core.errors import FoundryError, InputError
from pipeline_tasks.demo.site import listen
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import complaints, load_intents
from pipeline_tasks.synthesis.prompting.prompts import FOCUS_LABEL, PASSAGE_LABEL, PromptSet, load_prompts

LICENCE = "Apache-2.0"
_WORD = re.compile(r"\w+")
_MOST_BYTES = 1 << 20


class Written(BaseModel):
    """What was written about one sentence for one intent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    intent: str
    evidence: str = Field(min_length=1, description="quoted from the document, so that any passage with it is known")
    need: str = Field(min_length=1)
    query: str = Field(min_length=1)
    positive: str = Field(min_length=1)


class Recording:
    """Everything that was written for a domain.

    Attributes:
        name: ``recorded-`` and a digest of what was written, by which the server and the lineage know it.
    """

    def __init__(self, rows: Iterable[Written], domain: Path) -> None:
        """Rows, and the domain whose prompts they answer.

        Raises:
            InputError: its prompts cannot be read, or two of them have one task, by which they are told apart.
        """
        self._of_intent: defaultdict[str, list[Written]] = defaultdict(list)
        digest = hashlib.sha256()
        for row in rows:
            self._of_intent[row.intent].append(row)
            digest.update(row.model_dump_json().encode())
        self.name = f"recorded-{domain.name}-{digest.hexdigest()[:8]}"
        prompts = {intent: load_prompts(domain, intent) for intent in load_intents(domain)}
        self._of_task: dict[str, tuple[str, str, PromptSet]] = {}
        for intent, form in prompts.items():
            for kind, task in (("need", form.need.task), ("pair", form.pair.task)):
                other, before, _ = self._of_task.setdefault(task, (kind, intent, form))
                if (other, before) != (kind, intent):
                    raise InputError(
                        f"{domain.name}: {other}.task of prompts/{before}.toml and {kind}.task of prompts/{intent}.toml"
                        " are one text, and recorded answers are found by it; word one of them otherwise"
                    )

    def answer(self, prompt: str) -> str:
        """What was written for ``prompt``, as a model would complete it; empty where nothing was."""
        begun = [task for task in self._of_task if prompt.startswith(f"{task}\n\n")]
        if not begun:
            return ""
        kind, intent, form = self._of_task[max(begun, key=len)]
        last = prompt.split("\n\n")[-1].splitlines()
        found = self._about(intent, last)
        if kind == "need":
            return f"{form.need.label} {found[0].need}" if found else ""
        wanted = _after(form.need.label, last)
        found = [row for row in found if row.need == wanted]
        return _pair(form, found[0]) if found else ""

    def _about(self, intent: str, asked: Sequence[str]) -> list[Written]:
        """What was written about the passage in a prompt's last lines, first what is nearest to its key sentence."""
        passage, key = _after(PASSAGE_LABEL, asked), _words(_after(FOCUS_LABEL, asked))
        found = [row for row in self._of_intent[intent] if row.evidence in passage]
        return sorted(found, key=lambda row: (-len(key & _words(row.evidence)), row.need))


def load_recording(domain: Path) -> Recording:
    """The recording of the domain in the folder ``domain``.

    Raises:
        InputError: there is none, or a line is not one.
    """
    files = sorted((domain / "recordings").glob("*.jsonl"))
    if not files:
        raise InputError(f"{domain.name} has no recordings/*.jsonl: set OPENAI_BASE_URL to a model that can write")
    return Recording((row for file in files for row in read_recorded(file)), domain)


def read_recorded(file: Path) -> Iterator[Written]:
    """The lines of a file.

    Raises:
        InputError: one of them is not as :class:`Written` says.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{file.name} is no UTF-8 text ({error}): save it as such") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield Written.model_validate_json(line)
        except ValidationError as error:
            raise InputError(f"{file.name}, line {number}: {complaints(error)}") from error


@contextmanager
def serve_recorded(recording: Recording, port: int = 0) -> Iterator[str]:
    """Answer on loopback inside the context; yields the base URL (``http://127.0.0.1:PORT/v1``).

    Raises:
        InputError: the port cannot be had.
    """
    server = listen("127.0.0.1", port, partial(_Handler, recording))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer is two writes: the second would wait 40 ms for the first one's receipt

    def __init__(self, recording: Recording, *args: Any) -> None:
        self._recording = recording
        super().__init__(*args)

    def do_GET(self) -> None:  # noqa: N802
        """List the one model."""
        if self.path == "/v1/models":
            self._say(200, {"object": "list", "data": [{"id": self._recording.name, "object": "model"}]})
        else:
            self._refuse(404, f"there is no {self.path}")

    def do_POST(self) -> None:  # noqa: N802
        """Answer a prompt or a chat of one message."""
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 < length <= _MOST_BYTES:
            self.close_connection = True
            return self._refuse(413, f"a request has 1 to {_MOST_BYTES} bytes, this one {length}")
        try:
            asked = json.loads(self.rfile.read(length))
            chat = self.path == "/v1/chat/completions"
            first, *further = asked["messages"] if chat else [{"content": asked["prompt"]}]
            prompt, is_chat = str(first["content"]), bool(further) or first.get("role") == "system"
        except (ValueError, LookupError, TypeError):
            return self._refuse(400, "a request is a JSON object with `prompt`, or with `messages` for a chat")
        if self.path not in ("/v1/completions", "/v1/chat/completions"):
            return self._refuse(404, f"there is no {self.path}")
        if asked.get("model") != self._recording.name:
            return self._refuse(404, f"no model is called {asked.get('model')!r}; this is {self._recording.name}")
        if is_chat:
            return self._refuse(400, "this writer continues texts: ask it with api=completions")
        text = self._recording.answer(prompt)
        used = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(text.split())}
        choice = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        self._say(
            200,
            {
                "object": "chat.completion" if chat else "text_completion",
                "model": self._recording.name,
                "choices": [{"index": 0, "finish_reason": "stop"} | choice],
                "usage": used | {"total_tokens": sum(used.values())},
            },
        )

    def _refuse(self, status: int, message: str) -> None:
        self._say(status, {"error": {"message": message, "type": "invalid_request_error"}})

    def _say(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _after(label: str, lines: Sequence[str]) -> str:
    """What stands in the line that begins with ``label``."""
    return next((line.removeprefix(label).strip() for line in lines if line.startswith(label)), "")


def _pair(form: PromptSet, row: Written) -> str:
    first, second = form.pair.labels()
    answers = (row.query, row.positive) if form.pair.query_first else (row.positive, row.query)
    return f"{first} {answers[0]}\n{second} {answers[1]}"


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m pipeline_tasks.demo.recorded_llm", description=__doc__)
    parser.add_argument("--port", type=int, default=8080)
    options = parser.parse_args(argv)
    try:
        recording = load_recording(domain_folder())
        with serve_recorded(recording, options.port) as url:
            sys.stdout.write(f"{recording.name} at {url}\n")
            sys.stdout.flush()
            with suppress(KeyboardInterrupt):
                Event().wait()
    except FoundryError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
