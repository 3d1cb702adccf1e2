"""A dataset version: an ordered list of immutable parts, and what they were made from. Like a commit."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import canonical_json, short_id

LATEST = "latest"
REJECTS_SUFFIX = "/rejects"
PREVIOUS = "previous"
"""The input name of the version that one grew from."""
_DATASET = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Part(_Frozen):
    """One immutable object: rows in Parquet, or a model's file under its logical ``name``.

    ``bodies``: the object with those of its columns that hold files, see :mod:`pipeline_tasks.core.parts`.
    """

    sha256: str
    rows: int
    size_bytes: int
    name: str | None = None
    bodies: Part | None = None

    @model_serializer(mode="wrap")
    def _as_ever(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without ``bodies`` where there are none: manifests have the bytes that they had."""
        return {name: value for name, value in plain(self).items() if name != "bodies" or value}

    @property
    def objects(self) -> list[Part]:
        """Every object that it needs."""
        return [self, self.bodies] if self.bodies else [self]

    @property
    def key(self) -> str:
        """The object's key in the store."""
        return f"objects/{self.sha256[:2]}/{self.sha256}" + ("" if self.name else ".parquet")


class Removal(_Frozen):
    """Keys of rows that readers skip in parts ``first`` <= i < ``last``.

    ``column`` is the key column of the dataset that first removed them. A later dataset that still carries that column
    inherits the removal as it is, so that its old parts stay memo hits.
    """

    part: Part
    column: str
    first: int
    last: int

    def shifted(self, offset: int) -> Removal:
        """The same removal for parts that moved ``offset`` places."""
        return self.model_copy(update={"first": self.first + offset, "last": self.last + offset})


class Manifest(_Frozen):
    """Everything that defines a version; holds no time and no machine, so equal work gives equal bytes.

    ``licences``: model -> licence of all weights that the rows were made with, those behind the inputs included.
    ``erased``: the erasures that took rows out of it; its id still names the same work.
    ``learned_from``: of a model the ``content``, when its training began, of each input that is not as it was first
    made: an erasure had changed it, or it is a model that was trained after one.
    """

    dataset: str
    id: str
    step: str
    code_version: str
    rows_schema: str
    key: str
    params: dict[str, Any]
    inputs: dict[str, list[str]]
    rows: int
    parts: list[Part]
    removals: list[Removal] = []
    rejects: list[Part] = []
    licences: dict[str, str] = {}
    erased: list[str] = []
    learned_from: dict[str, str] = {}

    @property
    def ref(self) -> Ref:
        """This version's name."""
        return Ref(dataset=self.dataset, version=self.id)

    @property
    def size_bytes(self) -> int:
        """Bytes of all parts with their bodies, removals and rejects."""
        return sum(p.size_bytes for p in self.objects)

    @property
    def content(self) -> str:
        """What its parts hold: an erasure, or a second training, changes that under the same id."""
        return short_id([part.sha256 for part in self.parts])

    @property
    def objects(self) -> list[Part]:
        """Every object that this version needs."""
        return [o for part in (*self.parts, *(r.part for r in self.removals), *self.rejects) for o in part.objects]

    @classmethod
    def read(cls, data: bytes | None) -> Manifest | None:
        """What is kept as a manifest; None where that is none, such as a file that a power cut left empty."""
        try:
            return cls.model_validate_json(data or b"")
        except ValidationError:
            return None

    def share(self, known: dict[Any, Any]) -> None:
        """Hold each part and removal that equals one of ``known`` as that one; the others are known from now on.

        Versions of a growing dataset have most of theirs in common.
        """
        listed: list[Any]
        for listed in (self.parts, self.removals, self.rejects):
            listed[:] = [known.setdefault(one, one) for one in listed]

    def to_bytes(self) -> bytes:
        """The manifest file's bytes: canonical, so that two builders write the same file."""
        unsaid = {name for name in ("erased", "learned_from") if not getattr(self, name)}
        return canonical_json(self.model_dump(mode="json", exclude=unsaid)) + b"\n"


class Ref(_Frozen):
    """``DATASET`` or ``DATASET@VERSION``; the version may be a ref's name such as ``latest``."""

    dataset: str
    version: str = LATEST

    def model_post_init(self, _: Any) -> None:
        """Refuse what is no name, wherever it comes from: a path such as ``../x`` must not leave the store.

        Raises:
            InputError: not the name of a dataset, or of a version.
        """
        wrong = not _DATASET.fullmatch(self.dataset) or not _NAME.fullmatch(self.version)
        if wrong or ".." in self.dataset or ".." in self.version:
            name = self.dataset if self.version == LATEST else str(self)
            raise InputError(f"{name!r} is not DATASET or DATASET@VERSION, for example passages@latest")

    def __str__(self) -> str:
        return f"{self.dataset}@{self.version}"

    @property
    def of_rows(self) -> Ref:
        """The version that rejects go with; any other is itself."""
        return Ref(dataset=self.dataset.removesuffix(REJECTS_SUFFIX), version=self.version)

    @classmethod
    def parse(cls, text: str) -> Ref:
        """Read ``text``.

        Raises:
            InputError: not the name of a dataset or version.
        """
        dataset, at, version = text.partition("@")
        return cls(dataset=dataset, version=version if at else LATEST)


def version_id(step: str, code_version: str, params: dict[str, Any], inputs: dict[str, list[str]]) -> str:
    """First 16 hex digits of sha256(step, code version, params, inputs): same work, same id."""
    return short_id(step, code_version, params, inputs)
