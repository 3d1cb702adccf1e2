"""One user at a time of a name, across machines: an object in the bucket that its holder renews while it lives.

Clocks of different machines are never compared. Who waits watches the object: one that has not changed for a whole
lease, by the watcher's own clock, has lost its holder, and the watcher replaces it on the condition that it is still
the same. Exactly one watcher succeeds.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pipeline_tasks.core.errors import FoundryError
from pipeline_tasks.core.store.bucket import Bucket
from pipeline_tasks.core.store.protocol import Pin

log = logging.getLogger(__name__)
LEASE_S = 60.0
_BEATS = 4
_LOOKS = 16
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


@contextmanager
def leased(
    bucket: Bucket, key: str, owner: str, lease_s: float = LEASE_S, shows: str = ""
) -> Iterator[Callable[[], bool]]:
    """Wait until ``key`` is ours, and keep it until the end of the block; gives what tells whether it stayed ours.

    Args:
        bucket: where the object is.
        key: its name.
        owner: names those of whom a lock of their own lets one at a time come here, so that an object with this name
            was left behind by one that was killed, and is taken over at once.
        lease_s: seconds after which an object that nobody renews is void.
        shows: what it tells all who look at it. Nobody else has such a name, so it is shown again where others deleted
            it, who took the holder for dead as it was suspended or away for a lease.
    """
    held = _Lease(bucket, key, owner, lease_s, shows)
    held.wait()
    if shows:
        held.remember_since()
    done = threading.Event()
    renewal = threading.Thread(target=held.renew_until, args=(done,), daemon=True, name=f"lease {key}")
    renewal.start()
    try:
        yield held.lasted
    finally:
        done.set()
        renewal.join()
        bucket.delete(key, match=held.etag)


class _Lease:
    def __init__(self, bucket: Bucket, key: str, owner: str, lease_s: float, shows: str) -> None:
        self._bucket, self._key, self._owner, self._lease_s = bucket, key, owner, lease_s
        self._facts: dict[str, Any] = {"owner": owner, "shows": shows}
        self.etag, self._was_void = "", False

    def _body(self) -> bytes:
        return json.dumps(self._facts | {"renewal": uuid.uuid4().hex}).encode()

    def wait(self) -> None:
        """Return once the object is ours."""
        seen, since, pause = "", 0.0, _FIRST_PAUSE_S
        etag = self._bucket.put_if(self._key, self._body())
        while etag is None:
            found = self._bucket.get(self._key)
            if found is None:
                etag = self._bucket.put_if(self._key, self._body())
                continue
            if found[1] != seen:
                seen, since = found[1], time.monotonic()
            if _owner_of(found[0]) == self._owner or time.monotonic() - since >= self._lease_s:
                etag = self._bucket.put_if(self._key, self._body(), match=seen)
                continue
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        self.etag = etag

    def remember_since(self) -> None:
        """A renewal changes the server's time of the object: the first one stays in it."""
        first = self._bucket.head(self._key)
        self._facts["since"] = first.modified if first else 0.0

    def renew_until(self, done: threading.Event) -> None:
        """Replace the object a few times per lease; says so where others have it."""
        while not done.wait(self._lease_s / _BEATS):
            try:
                etag = self._renewed()
            except FoundryError as error:
                log.warning("%s cannot be renewed: %s", self._key, error)
                continue
            if etag is None:
                log.warning("%s was taken over, because it could not be renewed for %g s", self._key, self._lease_s)
                return
            self.etag = etag

    def _renewed(self) -> str | None:
        """The ETag of the object, which is written anew where nobody else may have it; None where others have it."""
        etag = self._bucket.put_if(self._key, self._body(), match=self.etag) or self._ours()
        if etag or not self._facts["shows"]:
            return etag
        self._was_void = True
        log.warning("%s was deleted, because it was not renewed for %g s; it is shown again", self._key, self._lease_s)
        return self._bucket.put_if(self._key, self._body()) or self._ours()

    def lasted(self) -> bool:
        """Whether nobody has taken this holder for dead."""
        return self._ours() is not None and not self._was_void  # in this order: it is noted before it is shown again

    def _ours(self) -> str | None:
        """The ETag of the object, where it is still this owner's: the answer to a renewal was lost."""
        found = self._bucket.get(self._key)
        return found[1] if found and _owner_of(found[0]) == self._owner else None


def _owner_of(body: bytes) -> str:
    return str(_facts(body).get("owner", ""))


def _facts(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def shown(bucket: Bucket, prefix: str, is_here: Callable[[str, str], bool | None], lease_s: float) -> list[Pin]:
    """What the objects below ``prefix`` show whose holders live; those of dead ones are deleted.

    Args:
        bucket: where they are.
        prefix: their folder.
        is_here: of an object's name and owner, whether its holder lives; None where that must be watched.
        lease_s: see :func:`leased`.
    """
    watched = {entry.key: (entry, found) for entry in bucket.below(prefix) if (found := bucket.get(entry.key))}
    living, since = [], time.monotonic()
    while watched:
        over = time.monotonic() - since >= lease_s
        for key, (entry, (body, etag)) in list(watched.items()):
            lives = is_here(key.removeprefix(f"{prefix}/"), _owner_of(body))
            now = bucket.get(key) if lives is None else (body, etag)
            if lives or (now and now[1] != etag):
                facts = _facts(body)
                living.append(Pin(facts["shows"].encode(), math.floor(facts.get("since", entry.modified))))
            elif lives is False or over:
                bucket.delete(key, match=etag)
            elif now:
                continue
            del watched[key]
        if watched:
            time.sleep(lease_s / _LOOKS)
    return living
