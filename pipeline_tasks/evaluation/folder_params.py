"""Which folder a judged set is read from: one of this machine or of a bucket, in BEIR's layout or in DisastIR's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.local_files import is_from_a_form, named_path, where_to_name
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import StepParams
from pipeline_tasks.core.store.bring_folder import SCHEME, bring_folder
from pipeline_tasks.evaluation.disastir_folder import DisastIRFolder
from pipeline_tasks.evaluation.judged_folder import CORPUS, QUERIES, JudgedFolder

_FILES = re.compile(
    r"corpus\.jsonl|queries\.jsonl|instruction\.jsonl|qrels\.tsv|qrels/[^/]+\.(tsv|json)|query/[^/]+\.json"
)


def folder_of(name: str) -> Path:
    """The folder that ``name`` means, a path or ``s3://bucket/prefix``; the files of a set are brought from a bucket.

    Raises:
        InputError: there is none, or none that this run may read.
        TransientError: the bucket's server does not answer.
    """
    if name.startswith(SCHEME) and not is_from_a_form():
        what = f"{CORPUS}, {QUERIES} and qrels"
        return bring_folder(name, settings().store_cache, lambda file: bool(_FILES.fullmatch(file)), what)
    path = named_path(name)
    if path is None or not path.is_dir():
        raise InputError(f"folder={name!r} is no folder: name one with {CORPUS}, {QUERIES}, qrels{where_to_name()}")
    return path


def opened(name: str, split: str) -> JudgedFolder:
    """The judged set in the folder ``name``, whichever of the layouts it has.

    Raises:
        InputError: there is no such folder, or a file of it is missing.
    """
    path = folder_of(name)
    return DisastIRFolder(path) if (path / "query").is_dir() else JudgedFolder(path, split)


class FolderParams(StepParams):
    """A judged set in a folder."""

    set_name: str = Field(description="name of the set here")
    folder: str = Field(description="folder in BEIR's or DisastIR's layout, here or as s3://bucket/prefix")
    split: str = Field("test", description="which qrels/<split>.tsv, where there are several")
    _folder: JudgedFolder | None = PrivateAttr(None)

    def model_post_init(self, context: Any) -> None:
        """Find the files."""
        self._folder = opened(self.folder, self.split) if self.folder else None

    def identity(self) -> dict[str, Any]:
        """The parameters, and what the files hold, wherever they lie."""
        return super().identity() | {"folder": self._folder.identity() if self._folder else ""}

    def open(self) -> JudgedFolder:
        """The folder.

        Raises:
            InputError: none is named.
        """
        if self._folder is None:
            raise InputError(f"folder is empty: name one with {CORPUS}, {QUERIES} and qrels")
        return self._folder
