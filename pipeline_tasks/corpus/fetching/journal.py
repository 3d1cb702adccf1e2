"""What a crawl has finished, on disk: a killed one goes on from there and fetches nothing twice."""

from __future__ import annotations

import json
import os
from collections.abc import Container
from dataclasses import asdict
from pathlib import Path

from pipeline_tasks.core import durable
from pipeline_tasks.corpus.fetching.outcomes import Outcome


class Journal:
    """Bodies as files named by their sha256, and one line for each address that ended; a body is there before its line.

    Args:
        folder: survives a kill.
    """

    def __init__(self, folder: Path) -> None:
        self._bodies = folder / "bodies"
        self._bodies.mkdir(exist_ok=True)
        self._lines = folder / "outcomes.jsonl"
        self._serial = 0
        for unfinished in self._bodies.glob("*.part"):
            unfinished.unlink()
        self.outcomes = self._load()
        self._file = self._lines.open("ab")

    def _load(self) -> dict[str, Outcome]:
        """Outcomes by address; a body that was cut short, or a line and all after it, never happened."""
        found, whole = {}, 0
        for line in self._lines.read_bytes().splitlines(keepends=True) if self._lines.exists() else ():
            try:
                outcome = Outcome(**json.loads(line))
            except (ValueError, TypeError):
                break
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            if self._is_whole(outcome):
                found[outcome.url_id] = outcome
        if self._lines.exists():
            os.truncate(self._lines, whole)
        return found

    def _is_whole(self, outcome: Outcome) -> bool:
        path = self.body(outcome.sha256)
        return outcome.end != "fetched" or (path.is_file() and path.stat().st_size == outcome.size_bytes)

    def body(self, sha256: str) -> Path:
        """The file with these bytes."""
        return self._bodies / sha256

    def unfinished(self) -> Path:
        """A new file to receive a body."""
        self._serial += 1
        return self._bodies / f"{self._serial}.part"

    def keep(self, path: Path, sha256: str) -> None:
        """Keep a received body under its sha256."""
        durable.replace(path, self.body(sha256))

    def note(self, outcome: Outcome) -> None:
        """An address has ended."""
        self._file.write(json.dumps(asdict(outcome)).encode() + b"\n")
        self._file.flush()
        self.outcomes[outcome.url_id] = outcome

    def forget_refusals(self, known: Container[str]) -> int:
        """Let what has no document yet be asked again where that may be a matter of time; how many addresses that is.

        An address that is ``known`` may have lost its document for an hour; the others keep a refusal that would stay.
        """
        refused = {url_id for url_id, outcome in self.outcomes.items() if outcome.end == "refused"}
        forgotten = {url_id for url_id in refused if url_id in known or self.outcomes[url_id].passing}
        for url_id in forgotten:
            del self.outcomes[url_id]
        return len(forgotten)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
