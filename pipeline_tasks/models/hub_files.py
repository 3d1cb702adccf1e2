"""Files of data sets on the hub, read by ranges at one commit; a range that was read is kept for the next try.

Nothing of a data set is executed, and of a large file no more is asked for than is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.ranges import RangedFile
from pipeline_tasks.core.settings import settings
from pipeline_tasks.models.hub import asking, is_commit

BLOCK_BYTES = 2 << 20
"""Bytes of lines that are asked for at once: a request takes a tenth of a second, whatever it brings."""
_LONGEST_RANGE = 2 << 30
_PARTIAL = 206
_BY_HAND = "download it with `hf download`, and name the folder in source="


def data_commit(repository: str, revision: str) -> str:
    """The commit that a revision of a data set names now; a commit is told without asking.

    Raises:
        InputError: the hub has no such data set or revision, or wants a token.
        TransientError: it cannot be asked.
    """
    from huggingface_hub import HfApi

    if is_commit(revision):
        return revision
    with asking(f"data set {repository}@{revision}"):
        return str(HfApi(token=_token()).dataset_info(repository, revision=revision).sha)


@dataclass(frozen=True)
class DataFiles:
    """The files of a data set at one commit.

    Attributes:
        repository: its name on the hub.
        kept: folder for what was read.
        spend: told the bytes of every range before it is asked for; may refuse.
    """

    repository: str
    commit: str
    kept: Path
    spend: Callable[[int], None]

    @property
    def pin(self) -> str:
        """Names it in messages."""
        return f"data set {self.repository}@{self.commit}"

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Path of every file -> its size in bytes.

        Raises:
            InputError: the hub has no such commit, or wants a token.
            TransientError: it cannot be asked.
        """
        from huggingface_hub import HfApi
        from huggingface_hub.hf_api import RepoFile

        api = HfApi(token=_token())
        with asking(self.pin):
            found = list(api.list_repo_tree(self.repository, recursive=True, revision=self.commit, repo_type="dataset"))
        return {file.path: file.size for file in found if isinstance(file, RepoFile)}

    def open(self, path: str, block_bytes: int = 0) -> RangeFile:
        """A file of those in :attr:`sizes`, by blocks, or (0) just what a read wants; nothing is asked for before."""
        return RangeFile(self, path, block_bytes)

    def read(self, path: str, start: int, end: int) -> bytes:
        """The bytes ``start`` <= i < ``end`` of a file: those that are kept, or asked for and kept.

        The hub's client tries six times, with longer and longer pauses.

        Raises:
            InputError: the file is gated or gone, too much is wanted at once, or the hub gives no ranges.
            TransientError: it cannot be asked.
        """
        from huggingface_hub import constants, hf_hub_url
        from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_backoff

        kept, size = self.kept / short_id(self.pin, path, start, end), end - start
        if kept.is_file() and kept.stat().st_size == size:  # a power cut may leave less
            return kept.read_bytes()
        if size > _LONGEST_RANGE:
            raise InputError(f"{self.pin}: {path} wants {size:,} bytes at once: {_BY_HAND}")
        self.spend(size)
        url = hf_hub_url(self.repository, path, repo_type="dataset", revision=self.commit)
        ranges = {"range": f"bytes={start}-{end - 1}", "accept-encoding": "identity"}
        with asking(f"{path} of {self.pin}"):
            headers = build_hf_headers(token=_token()) | ranges
            answer = http_backoff("GET", url, headers=headers, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT)
            hf_raise_for_status(answer)
        data = bytes(answer.content)
        if answer.status_code != _PARTIAL:
            raise InputError(f"{self.pin}: the hub gives no part of {path}, only all of it: {_BY_HAND}")
        if len(data) != size:
            raise TransientError(f"{self.pin}: {len(data):,} bytes of {path} came, {size:,} were asked for")
        fresh = kept.with_suffix(".fresh")
        fresh.write_bytes(data)
        fresh.replace(kept)
        return data


class RangeFile(RangedFile):
    """A file on the hub: a read is one range, or comes of the block that it is in."""

    def __init__(self, files: DataFiles, path: str, block_bytes: int) -> None:
        super().__init__(files.sizes[path])
        self._files, self._path, self._block_bytes = files, path, block_bytes
        self._start, self._block = -1, b""

    def between(self, first: int, past: int) -> bytes:
        """The bytes from ``first`` to before ``past``, as far as they are in one block."""
        if not self._block_bytes:
            return self._files.read(self._path, first, past)
        start = first - first % self._block_bytes
        if start != self._start:
            self._block = self._files.read(self._path, start, min(start + self._block_bytes, self._size))
            self._start = start
        return self._block[first - start : past - start]


def _token() -> str | None:
    """That of the settings; None lets the client look where `hf auth login` leaves one."""
    return settings().hf_token.get_secret_value() or None
