"""An endpoint's batch API, as OpenAI has it: a file of requests, answered within a day, for less.

A batch carries the name that it has here. So one that was begun by a process which was killed before it could write
down its id is found again, and not begun twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.paid.endpoint.client import Endpoint
from pipeline_tasks.core.paid.endpoint.errors import Fault, Refused
from pipeline_tasks.core.paid.endpoint.pace import backoff_s
from pipeline_tasks.core.paid.endpoint.transport import LARGEST_FILE
from pipeline_tasks.core.wire import clean

_NAME, _TRY = "foundry", "try"
_ENDED = ("completed", "expired", "cancelled", "failed")
_ROOTS = ("/files", "/batches")
_PAGES, _A_PAGE = 50, 100
_LONGEST_SAID = 200
_NO_ROOM = "token_limit_exceeded"


class _Reply(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _File(_Reply):
    id: str


class _Counts(_Reply):
    total: int = 0
    completed: int = 0
    failed: int = 0


class Standing(_Reply):
    """How a batch stands.

    Attributes:
        id: the endpoint's name for it.
        status: the endpoint's word.
        input_file_id: the file of its requests.
        output_file_id: of answers; None where there are none.
        error_file_id: of requests that failed or were too late; None where there are none.
        request_counts: how many are done.
        metadata: with the name that it has here.
        errors: why it failed as a whole.
    """

    id: str
    status: str
    input_file_id: str = ""
    output_file_id: str | None = None
    error_file_id: str | None = None
    request_counts: _Counts | None = None
    metadata: dict[str, str] | None = None
    errors: Any = None

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status in _ENDED

    @property
    def had_no_room(self) -> bool:
        """Whether it failed only because too much is on its way: the same may be taken later, or less of it."""
        return self.status == "failed" and {one.get("code") for one in _each(self.errors)} == {_NO_ROOM}

    @property
    def done(self) -> int:
        """Requests that were answered so far."""
        return self.request_counts.completed if self.request_counts else 0


class FileGone(InputError):
    """The endpoint keeps a file no longer, or not for this key."""


class NoBatchApi(InputError):
    """The endpoint takes no batches at all."""


class _Page(_Reply):
    data: list[Standing] = []
    has_more: bool = False


R = TypeVar("R", bound=_Reply)


class BatchApi:
    """Batches at ``endpoint``.

    Raises:
        NoBatchApi: by :meth:`check`, :meth:`start` and :meth:`find`: the endpoint takes no batches.
        InputError: by every method: it does not accept this one.
        TransientError: by every method: it stayed busy or broken.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def check(self) -> None:
        """The endpoint takes batches; what stands in the way is raised, and nothing is begun."""
        self._request_as(_Page, "GET", "/batches", params={"limit": 1})

    def start(self, name: str, requests: Iterable[dict[str, Any]], path: str, tried: str = "") -> str:
        """The id of the batch called ``name``, which is begun with these lines unless one is under way.

        ``tried`` tells this one from others of that name, which have ended.
        """
        if found := self.find(name, ended=False):
            return found
        data = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in requests)
        file = (f"{name}.jsonl", data, "application/jsonl")
        uploaded = self._request_as(_File, "POST", "/files", data={"purpose": "batch"}, files={"file": file})
        labels = {_NAME: name} | ({_TRY: tried} if tried else {})
        body = {"input_file_id": uploaded.id, "endpoint": f"/v1{path}", "completion_window": "24h"}
        for tries in range(1, self._endpoint.terms.attempts + 1):
            try:
                return self._request_as(Standing, "POST", "/batches", once=True, json=body | {"metadata": labels}).id
            except Fault as fault:  # it may have been begun all the same
                self._endpoint.count(f"retries_{fault.kind}")
                self._endpoint.pace.rest(max(backoff_s(tries), fault.wait_s or 0.0))
                if found := self.find(name, ended=False):
                    return found
        raise TransientError(f"{self._endpoint.host} failed to begin a batch in {tries} attempts; try again later")

    def find(self, name: str, tried: str = "", *, ended: bool = True) -> str | None:
        """The id of the last batch called ``name``, if there is one among the latest.

        Args:
            name: as for :meth:`start`.
            tried: as for :meth:`start`; empty: whichever it was.
            ended: even one that has ended.
        """
        page = _Page(has_more=True)
        for _ in range(_PAGES):
            if not page.has_more:
                break
            after = {"after": page.data[-1].id} if page.data else {}
            page = self._request_as(_Page, "GET", "/batches", params={"limit": _A_PAGE} | after)
            for batch in page.data:
                labels = batch.metadata or {}
                meant = labels.get(_NAME) == name and (not tried or labels.get(_TRY) == tried)
                if meant and (ended or not batch.ended):
                    return batch.id
            if not page.data:
                break
        return None

    def standing(self, batch: str) -> Standing:
        """How the batch with this id stands."""
        return self._request_as(Standing, "GET", f"/batches/{batch}")

    def lines(self, file: str | None) -> Iterator[dict[str, Any]]:
        """The objects in a file of JSON lines; what is none is passed over, and None has none.

        Raises:
            FileGone: it is not there any more.
        """
        for line in self._call("GET", f"/files/{file}/content", largest=LARGEST_FILE).splitlines() if file else ():
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                yield found

    def delete(self, file: str) -> None:
        """Let the endpoint keep a file no longer; where there is none, none has to go."""
        if file:
            with suppress(FileGone):
                self._call("DELETE", f"/files/{file}")

    def _request_as(self, kind: type[R], method: str, path: str, **sent: Any) -> R:
        try:
            return kind.model_validate_json(self._call(method, path, **sent))
        except ValidationError:
            raise TransientError(f"{self._endpoint.host} sent what its batch API should not ({path})") from None

    def _call(self, method: str, path: str, **sent: Any) -> bytes:
        try:
            return self._endpoint.call(method, path, **sent)
        except Refused as refused:
            raise InputError(f"{self._endpoint.host} refuses {method} {path}: {refused.detail}") from None
        except InputError as error:
            if "(404)" not in str(error):
                raise
            if path not in _ROOTS:
                text = f"{self._endpoint.host} has nothing at {path} any more, or it is of another key's project (404)"
                raise FileGone(text) from None
            raise NoBatchApi(
                f"{self._endpoint.host} has no batch API (404 for {method} {path}): ask at once, without "
                "`foundry batch` and with the field batch off"
            ) from None


def failure_text(errors: Any) -> str:
    """Why a batch failed, in the endpoint's words."""
    messages = [one.get("message") for one in _each(errors)]
    return clean("; ".join(str(one) for one in messages if one), _LONGEST_SAID) or "it does not say why"


def _each(errors: Any) -> list[dict[str, Any]]:
    data = errors.get("data") if isinstance(errors, dict) else None
    return [one for one in data or () if isinstance(one, dict)]
