"""The lines of the log on the standard error: as text for a person, or as JSON objects for what collects them."""

from __future__ import annotations

import json
import logging
import sys
import unicodedata
from datetime import UTC, datetime
from types import TracebackType

from pipeline_tasks.core.settings import settings

log = logging.getLogger("foundry")
_JOINERS = "\u200c\u200d"
"""Which words of Persian and Indic scripts, and composed emoji, are spelt with."""
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
NOISY = ("bm25s", "httpx", "httpx2", "botocore", "boto3", "faiss", "datasketch", "sentence_transformers")


class JsonLines(logging.Formatter):
    """One JSON object a line: ``time`` (UTC), ``level``, ``logger``, ``message``, and ``error`` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's line; what is no text becomes some."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class TextLines(logging.Formatter):
    """Lines for a person, which tell a terminal nothing."""

    def __init__(self) -> None:
        super().__init__(TEXT)

    def format(self, record: logging.LogRecord) -> str:
        """The record's line, and the error's where there is one."""
        return visible(super().format(record))


def visible(text: str) -> str:
    r"""``text`` with an escape such as ``\x1b`` for what cannot be printed, lines, tabs, blanks and joiners apart.

    Names of columns, keys and files come from whoever made a file; as they are, they could clear or retitle a terminal.
    """
    return "".join(c if _is_shown(c) else c.encode("unicode_escape").decode("ascii") for c in text)


def _is_shown(c: str) -> bool:
    return c.isprintable() or c in _JOINERS or c in "\n\t" or unicodedata.category(c) == "Zs"


def say(text: str, level: int = logging.INFO) -> None:
    """One line for whoever runs a command, as it is where people read and as an object where programs do."""
    if any(isinstance(handler.formatter, JsonLines) for handler in logging.root.handlers):
        log.log(level, "%s", text)
    else:
        sys.stderr.write(f"{visible(text)}\n")


def set_up() -> None:
    """Log to the standard error, in the form that ``FOUNDRY_LOG_FORMAT`` names."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings().log_format == "json" else TextLines())
    log_by(handler)
    if settings().log_format == "json":
        sys.excepthook = _bug


def log_by(handler: logging.Handler) -> None:
    """Let ``handler`` have what is logged, unless something has it already; of libraries that say much, warnings."""
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)


def _bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    log.critical("this is a bug", exc_info=(kind, error, trace))
