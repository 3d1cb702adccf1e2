"""Whether a server of objects heeds the conditions of writes, without which nobody is the only winner."""

from __future__ import annotations

import uuid

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store.bucket import Bucket
from pipeline_tasks.core.store.s3_errors import NO_CONDITIONS

_NOBODYS_ETAG = f'"{"0" * 32}"'


def check_conditions(bucket: Bucket) -> None:
    """Make sure that writes whose condition is not met fail, by four requests about a key that is gone after them.

    A server that lacks them need not refuse them: some write all the same, and say nothing.

    Raises:
        InputError: one succeeded, or these keys may not write.
    """
    key = f"gc/conditions-{uuid.uuid4().hex}"
    bucket.put_if(key, b"")
    try:
        if bucket.put_if(key, b"") or bucket.put_if(key, b"", match=_NOBODYS_ETAG):
            raise InputError(f"{bucket.address}: {NO_CONDITIONS}")
    finally:
        bucket.delete(key)
