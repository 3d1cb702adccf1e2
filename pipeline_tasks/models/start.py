"""What a training starts from: a model of the registry, or a model's folder, known by what its files say.

A folder is read once when a run is planned, and copied before it trains: what trains is what the version's id names,
whatever becomes of the folder in the meantime, and wherever it lies. What is loaded once and not trained is looked at
again in its place.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, PrivateAttr, TypeAdapter, ValidationError

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.export import LICENCES
from pipeline_tasks.core.ids import digest, file_sha256
from pipeline_tasks.core.local_files import is_readable_file, named_path, where_to_name
from pipeline_tasks.core.runtime import versions_of
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import StepParams
from pipeline_tasks.core.wire import clean
from pipeline_tasks.models import use
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.sizes import get_size

_READ = ("*.json", "*.txt", "*.model", "*.safetensors", "*/config.json", "*_Dense/model.safetensors")
"""What loading a model reads of its folder; cards, pickles and other copies of the weights have no say."""
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_LICENCE, _LICENCE_NAME = (
    re.compile(rf"^{field}:[ \t]*(?:\n?[ \t]*-[ \t]*|\[[ \t]*)?[\"']?([^\s\"'#,\]]+)", re.MULTILINE)
    for field in ("licen[sc]e", "licen[sc]e_name")
)
"""Of a card: one, or the first of a list."""
_LONGEST = 500
_UNKNOWN = "unknown: its folder names none"


@dataclass(frozen=True)
class Start:
    """One model to start from.

    Attributes:
        name: in the registry; of a folder ``folder`` and the first digits of its files' digest.
        sha256: digest of a folder's files; empty for a model of the registry.
        folder: where they lie; None for a model of the registry.
        licences: model and licence of all weights behind it; a folder's are those that it names itself.
    """

    name: str
    sha256: str = ""
    folder: Path | None = None
    licences: tuple[tuple[str, str], ...] = ()

    def identity(self) -> dict[str, Any]:
        """What its weights and its way with texts are, part of the version of what is trained from it."""
        if self.folder is None:
            return use.identity(self.name)
        return {"name": self.name, "sha256": self.sha256, "libraries": versions_of("tokenizers")}

    def files(self, target: Path | None = None) -> Path:
        """The folder to load it from: the cache's, or the one that was named, or a copy of that, made in ``target``.

        Raises:
            InputError: it is not fetched, or the folder is not on this machine, or has changed since it was named.
        """
        if self.folder is None:
            return use.folder(self.name)
        if target and target.is_dir() and _digest(target, ours=True) == self.sha256:
            return target
        if not self.folder.is_dir():
            raise InputError(
                f"{str(self.folder)!r} is no folder on {gethostname()}, which reads it: put it where both this machine "
                "and the one that plans see it, at the same path"
            )
        if target:
            shutil.rmtree(target, ignore_errors=True)
            for path in _files(self.folder):
                copy = target / path.relative_to(self.folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
        if _digest(target or self.folder, ours=bool(target)) != self.sha256:
            raise InputError(f"{str(self.folder)!r} changed since this run began: start the run again")
        return target or self.folder


class StartParams(StepParams):
    """Of a step that reads what a size starts from."""

    if TYPE_CHECKING:
        size: str

    backbone: str | None = Field(
        None, description="model to start from: a name of `foundry models` or the path of a folder; empty: the size's"
    )
    _start: Start | None = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Look at what it starts from once, so that one run is of one state of a folder."""
        name = self.backbone or (get_size(self.size).backbone if self.size else "")
        self._start = start_of(name) if name else None

    @property
    def start(self) -> Start:
        """What it starts from, as it was when these parameters were made.

        Raises:
            InputError: no size is named, and no model.
        """
        if self._start is None:
            raise InputError("neither size nor backbone is named: name what to start from")
        return self._start

    @property
    def has_start(self) -> bool:
        """Whether a size or a model is named."""
        return self._start is not None

    def identity(self) -> dict[str, Any]:
        """The parameters, and what the start's weights are in place of its name or path."""
        return super().identity() | ({"backbone": self._start.identity()} if self._start else {})

    @classmethod
    def from_identity(cls, identity: dict[str, Any]) -> dict[str, Any]:
        """The parameters, and the start by its name."""
        found = super().from_identity(identity)
        return found | ({"backbone": start["name"]} if (start := found.get("backbone")) else {})

    def licences(self) -> dict[str, str]:
        """Those of the start's weights; what is made of it has them from its first model."""
        return dict(self._start.licences) if self._start else {}


StartFrom = Annotated[
    tuple[str, ...],
    Field(max_length=1, description="trained model to start from, such as model/33m/finetune; empty: the backbone"),
]


class TrainedStartParams(StartParams):
    """Of a step that reads what a size starts from, or goes on from ``init``, the model that ``start_from`` names."""

    if TYPE_CHECKING:

        @property
        def start_from(self) -> tuple[str, ...]:
            """One at most."""

    @property
    def instead(self) -> str:
        """What to do where a backbone does not embed."""
        return f"name start_from=model/{self.size}/pretrain, or a size or backbone that embeds"

    def licences_beside(self, inputs: Collection[str]) -> dict[str, str]:
        """None of its own where it goes on from a trained model, which brings those behind it."""
        return {} if "init" in inputs else self.licences()


class EmbeddingStartParams(TrainedStartParams):
    """Of one that has to start from what embeds: ``pretrain`` alone lets layers that judge pairs begin anew."""

    def check_inputs(self, inputs: Collection[str]) -> None:
        """Refuse to start from a backbone that judges pairs."""
        if "init" in inputs or self.start_from or not self._start or self._start.folder:
            return
        if n_layers := judging_layers(self._start.name):
            raise InputError(
                f"the top {n_layers} layers of {self._start.name} judge pairs and tell single texts apart no more, and "
                f"pretrain alone lets them begin anew: {self.instead}"
            )


def start_of(name: str) -> Start:
    """The model that ``name`` stands for: a path, which has a slash in it, or a name of the registry.

    Raises:
        InputError: there is no such model, this run may not read it, or nothing here can train it.
    """
    return _folder(name) if _is_path(name) else _registered(name)


def judging_layers(name: str) -> int:
    """Of the model that ``name`` stands for the top layers that judge pairs, and tell single texts apart no more.

    Those of a folder are not known, and none here.

    Raises:
        InputError: no model has that name.
    """
    source = None if _is_path(name) or settings().profile == "hub" else get(name).offline
    return source.judging_layers if source else 0


def reranker_of(name: str) -> Start:
    """The model that ``name`` stands for, one that scores a query and a passage together.

    Raises:
        InputError: there is no such model, this run may not read it, or it is of another kind.
    """
    if _is_path(name):
        return _folder(name)
    if (spec := get(name)).role != "reranker":
        raise InputError(
            f"reranker={name!r} is no model that scores pairs: name a reranker of `foundry models`, or the folder of a "
            "model for sequence classification"
        )
    return Start(name, licences=((name, spec.licence),))


def _is_path(name: str) -> bool:
    return "/" in name or name.startswith(("~", "."))


def _registered(name: str) -> Start:
    spec = get(name)
    here = spec.backend if settings().profile == "offline" else "torch" if spec.hub else ""
    if spec.only_served or spec.role in ("llm", "reranker") or here != "torch":
        raise InputError(
            f"backbone={name!r} cannot be trained here ({spec.note or 'no weights'}): name another model of `foundry "
            "models`, or its folder, or take its weights from a hub (FOUNDRY_PROFILE=hub)"
        )
    if spec.causal is not None:
        raise InputError(
            f"backbone={name!r}: that it has causal={spec.causal} is known to the registry alone, and training reads a "
            "model's files: save it with `is_causal` in its config.json, and name that folder"
        )
    return Start(name, licences=((name, spec.licence),))


def _folder(name: str) -> Start:
    folder = named_path(name)
    if folder is None or not folder.is_dir() or not is_readable_file(folder / "config.json"):
        raise InputError(f"backbone={name!r} is no model's folder: name one with a config.json{where_to_name()}")
    found = {path.name for path in _files(folder)}
    if "tokenizer.json" not in found:
        raise InputError(
            f"backbone={name!r} has no tokenizer.json: load its tokenizer with transformers and save it there"
        )
    use.refuse_adapters(folder)
    if not any(file.endswith(".safetensors") and not file.startswith("adapter_") for file in found):
        pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
        has = f"its weights as a pickle alone ({pickles[0]}), which is never read here" if pickles else "no weights"
        raise InputError(f"backbone={name!r} has {has}: save it again with transformers 5, as model.safetensors")
    sha256 = _digest(folder)
    called = f"folder-{sha256[:16]}"
    return Start(called, sha256, folder, tuple(sorted(_licences(folder, called).items())))


def _files(folder: Path, *, ours: bool = False) -> list[Path]:
    """What loading reads, in one order; a link that leads to what this run may not read is not followed.

    Args:
        folder: a model's.
        ours: this run made it, wherever it is.
    """
    found = {path for pattern in _READ for path in folder.glob(pattern) if path.name != LICENCES}
    return sorted(path for path in found if (path.is_file() if ours else is_readable_file(path)))


def _digest(folder: Path, *, ours: bool = False) -> str:
    return digest({path.relative_to(folder).as_posix(): file_sha256(path) for path in _files(folder, ours=ours)})


def _licences(folder: Path, called: str) -> dict[str, str]:
    """Model -> licence: those that an export of ours lists, and what the card's front matter says of the whole."""
    listed, card = folder / LICENCES, folder / "README.md"
    try:
        found = TypeAdapter(dict[str, str]).validate_json(listed.read_bytes()) if is_readable_file(listed) else {}
    except ValidationError as error:
        raise InputError(f"{listed} is no JSON object of models and their licences: mend it, or delete it") from error
    front = card.read_text("utf-8", "replace").split("---")[1:2] if is_readable_file(card) else []
    stated = [one[1] for kind in (_LICENCE, _LICENCE_NAME) if (one := kind.search(front[0] if front else ""))]
    if stated or not found:
        found[called] = (" ".join(stated) if stated[:1] == ["other"] else stated[0]) if stated else _UNKNOWN
    cleaned = ((clean(model, _LONGEST), clean(licence, _LONGEST)) for model, licence in found.items())
    return {model or called: licence or _UNKNOWN for model, licence in cleaned}
