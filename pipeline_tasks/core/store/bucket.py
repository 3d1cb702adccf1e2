"""One prefix of an S3 bucket: the few requests that a store is made of, over boto3, with our errors.

Conditional writes carry a token of their own. A write whose answer was lost is sent again by botocore and finds
itself there: the token tells that from another writer's.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

from pipeline_tasks.core.errors import InputError, installed_with
from pipeline_tasks.core.settings import unset_if_empty
from pipeline_tasks.core.store import patience
from pipeline_tasks.core.store.protocol import Entry, checked_key
from pipeline_tasks.core.store.s3_errors import BEYOND, CONFLICT, ENDED, LATER, MISSING, UNMET, code_of, explained

log = logging.getLogger(__name__)
THREADS = 16
MULTIPART_BYTES = 64 << 20
CHUNK_BYTES = 16 << 20
_MOST_CHUNKS = 9_000
_BLOCK_BYTES = 1 << 20
_CONFLICTS = 5
_MOST_DELETED = 1_000
Got = TypeVar("Got")
_ADDRESS = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*?))?/?")


class Bucket:
    """Objects below ``s3://bucket/prefix``. Endpoint, region and keys are found by boto3 in its usual places."""

    def __init__(self, address: str) -> None:
        found = _ADDRESS.fullmatch(address)
        if found is None:
            raise InputError(f"{address!r} is no address of a store; give s3://bucket or s3://bucket/prefix")
        self.name, self.prefix = found[1], found[2] or ""
        if self.prefix:
            self.prefix = checked_key(self.prefix) + "/"
        self.address = address.rstrip("/")
        self._client: tuple[int, Any] = (0, None)

    @property
    def client(self) -> Any:
        """boto3's client; made on first use, and anew in a forked process, which must not share connections."""
        if self._client[0] != os.getpid():
            self._client = (os.getpid(), self._connected())
        return self._client[1]

    def _connected(self) -> Any:
        try:
            import boto3
            from botocore.config import Config
        except ImportError as error:
            raise InputError(f"an s3:// store needs boto3: {installed_with('s3')}") from error
        config = Config(
            retries={"mode": "standard", "total_max_attempts": patience.ATTEMPTS},
            connect_timeout=10,
            read_timeout=60,
            max_pool_connections=2 * THREADS,
        )
        unset_if_empty("AWS_CA_BUNDLE")
        with explained(self.address):
            try:
                session = boto3.session.Session()
                keys = patience.with_keys(session.get_credentials)
                client = session.client("s3", config=config)
            except ValueError as error:
                raise InputError(f"{self.address}: {error}; mend AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL") from error
        client.meta.events.register_first("needs-retry.s3", patience.pause_s)
        if keys:  # renewed here, where that can be tried again, and not when a request is signed
            renew = keys.get_frozen_credentials
            client.meta.events.register_first("before-parameter-build.s3", lambda **_: patience.with_keys(renew))
        return client

    def _at(self, key: str) -> dict[str, str]:
        return {"Bucket": self.name, "Key": self.prefix + checked_key(key)}

    def get(self, key: str) -> tuple[bytes, str] | None:
        """The bytes and the ETag of ``key``, or None."""
        return self._fetched(lambda answer: (answer["Body"].read(), answer["ETag"]), **self._at(key))

    def get_range(self, key: str, first: int, past: int) -> tuple[bytes, int] | None:
        """The bytes of ``key`` from ``first`` to before ``past``, and how many it has in all; None where it is not.

        None as well where it ends before ``first``.
        """
        return self._fetched(
            lambda answer: (answer["Body"].read(), int(answer["ContentRange"].rpartition("/")[2])),
            Range=f"bytes={first}-{past - 1}",
            **self._at(key),
        )

    def download(self, key: str, path: Path) -> str | None:
        """Write the bytes of ``key`` to ``path``; their sha256, or None where there is no such key."""

        def written(answer: Any) -> str:
            seen = hashlib.sha256()
            with path.open("wb") as file:
                for block in answer["Body"].iter_chunks(_BLOCK_BYTES):
                    seen.update(block)
                    file.write(block)
            return seen.hexdigest()

        return self._fetched(written, **self._at(key))

    def _fetched(self, taken: Callable[[Any], Got], **what: Any) -> Got | None:
        """What is taken of the answer, asked for again where the connection breaks within its bytes; None: missing."""
        from botocore.exceptions import HTTPClientError, IncompleteReadError

        attempt = 0
        with explained(self.address):
            while True:
                attempt += 1
                answer = self._unless_missing(self.client.get_object, **what)
                try:
                    return taken(answer) if answer else None
                except (HTTPClientError, IncompleteReadError):
                    if attempt == patience.ATTEMPTS:
                        raise
                    time.sleep(patience.wait_s(attempt))

    def head(self, key: str) -> Entry | None:
        """Size and time of ``key``, or None."""
        with explained(self.address):
            answer = self._unless_missing(self.client.head_object, **self._at(key))
        return Entry(key, answer["ContentLength"], answer["LastModified"].timestamp()) if answer else None

    @staticmethod
    def _unless_missing(ask: Callable[..., Any], **what: Any) -> Any:
        from botocore.exceptions import ClientError

        try:
            return ask(**what)
        except ClientError as error:
            if code_of(error) in (*MISSING, *BEYOND):
                return None
            raise

    def below(self, prefix: str) -> Iterator[Entry]:
        """Everything below the folder ``prefix``, a thousand a request, in any order."""
        folder = self.prefix + checked_key(prefix).rstrip("/") + "/"
        with explained(self.address):
            for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=folder):
                for found in page.get("Contents", ()):
                    key = found["Key"].removeprefix(self.prefix)
                    if not key.endswith("/"):
                        yield Entry(key, found["Size"], found["LastModified"].timestamp())

    def put(self, key: str, data: bytes) -> None:
        """Write ``key``, whatever is there."""
        with explained(self.address):
            self.client.put_object(Body=data, **self._at(key))

    def put_if(self, key: str, data: bytes | IO[bytes], *, match: str = "", sha256: str = "") -> str | None:
        """Write ``key`` if it has the ETag ``match``, without one if it is not there; the new ETag, or None.

        Args:
            key: the key.
            data: what to write.
            match: the ETag that must be there.
            sha256: what the server checks the bytes against, where known.
        """
        condition = {"IfMatch": match} if match else {"IfNoneMatch": "*"}
        if sha256:
            condition["ChecksumSHA256"] = base64.b64encode(bytes.fromhex(sha256)).decode()
        token = uuid.uuid4().hex

        def send() -> Any:
            if not isinstance(data, bytes):
                data.seek(0)
            return self.client.put_object(Body=data, Metadata={"writer": token}, **condition, **self._at(key))

        with explained(self.address):
            return self._once(key, token, send)

    def _once(self, key: str, token: str, send: Callable[[], Any]) -> str | None:
        """The ETag that ``send`` wrote, or None where its condition was not met."""
        from botocore.exceptions import ClientError

        for attempt in range(_CONFLICTS):
            try:
                return send()["ETag"]
            except ClientError as error:
                again = attempt or error.response["ResponseMetadata"].get("RetryAttempts", 0)
                if code_of(error) in CONFLICT and attempt < _CONFLICTS - 1:
                    time.sleep(patience.wait_s(attempt + 1))
                    continue
                if code_of(error) not in (*UNMET, *MISSING, *ENDED):
                    raise
                found = self._unless_missing(self.client.head_object, **self._at(key)) if again else None
                if found and found["Metadata"].get("writer") == token:
                    return found["ETag"]
                if code_of(error) in ENDED:
                    raise
                return None
        return None

    def upload(self, key: str, path: Path, *, sha256: str = "") -> bool:
        """Write ``key`` from a file unless it is there, in pieces where it is large; True for the one that made it."""
        if path.stat().st_size <= MULTIPART_BYTES:
            with path.open("rb") as file:
                return self.put_if(key, file, sha256=sha256) is not None
        token, at = uuid.uuid4().hex, self._at(key)
        with explained(self.address):
            started = self.client.create_multipart_upload(Metadata={"writer": token}, **at)["UploadId"]
            try:
                pieces = self._send_pieces(at, started, path)
                done = self._once(
                    key,
                    token,
                    lambda: self.client.complete_multipart_upload(
                        UploadId=started, MultipartUpload={"Parts": pieces}, IfNoneMatch="*", **at
                    ),
                )
            except BaseException:
                self._abandon(at, started)
                raise
            if done is None:
                self._abandon(at, started)
            return done is not None

    def _abandon(self, at: dict[str, str], upload_id: str) -> None:
        """Drop the pieces of an upload; where the server will not, why it was abandoned matters more."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self.client.abort_multipart_upload(UploadId=upload_id, **at)
        except (BotoCoreError, ClientError) as error:
            log.warning("pieces of an abandoned upload of %s may stay in %s: %s", at["Key"], self.address, error)

    def _send_pieces(self, at: dict[str, str], upload_id: str, path: Path) -> list[dict[str, Any]]:
        size = path.stat().st_size
        length = max(CHUNK_BYTES, -(-size // _MOST_CHUNKS))

        def send(number: int) -> dict[str, Any]:
            with path.open("rb") as file:
                file.seek((number - 1) * length)
                answer = self.client.upload_part(Body=file.read(length), PartNumber=number, UploadId=upload_id, **at)
            sums = {name: value for name, value in answer.items() if name in ("ETag", "ChecksumCRC32")}
            return {"PartNumber": number, **sums}

        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(send, range(1, -(-size // length) + 1)))

    def touch(self, key: str) -> None:
        """Let ``key`` count as written now, with the bytes that it has; no error where it is not."""
        at, anew = self._at(key), {"MetadataDirective": "REPLACE"}
        with explained(self.address):
            self._unless_missing(self.client.copy, CopySource=at, ExtraArgs=anew, **at)

    def delete_all(self, keys: Iterable[str]) -> None:
        """Forget each of ``keys``, a thousand a request; no error where one is not."""
        todo = iter(keys)
        while block := [{"Key": self._at(key)["Key"]} for key in islice(todo, _MOST_DELETED)]:
            with explained(self.address):
                self._delete_block(block)

    def _delete_block(self, block: list[dict[str, str]]) -> None:
        """Asked again for those that the server is too busy for."""
        from botocore.exceptions import ClientError

        for attempt in range(1, patience.ATTEMPTS + 1):
            answer = self.client.delete_objects(Bucket=self.name, Delete={"Objects": block, "Quiet": True})
            failed = [fault for fault in answer.get("Errors", ()) if fault.get("Code") not in MISSING]
            for fault in failed:
                if fault.get("Code") not in LATER or attempt == patience.ATTEMPTS:
                    raise ClientError({"Error": fault}, "DeleteObjects")
            block = [{"Key": fault["Key"]} for fault in failed]
            if not block:
                return
            time.sleep(patience.wait_s(attempt))

    def delete(self, key: str, *, match: str = "") -> None:
        """Forget ``key``, where given only while it has the ETag ``match``; no error where it is not."""
        from botocore.exceptions import ClientError

        condition = {"IfMatch": match} if match else {}
        with explained(self.address):
            try:
                self.client.delete_object(**condition, **self._at(key))
            except ClientError as error:
                if code_of(error) not in (*UNMET, *MISSING):
                    raise
