"""Models by name, as steps use them: their folder in this machine's cache and what identifies their weights."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.runtime import versions_of
from pipeline_tasks.core.settings import settings
from pipeline_tasks.models.fetch import checked, commit_of, hub_source, path_of
from pipeline_tasks.models.registry import ANY, ModelSpec, assigned, get

if TYPE_CHECKING:
    from tokenizers import Tokenizer

REFERENCE_MODELS = assigned("offline", ANY)
"""Three independent encoders, best first; the offline stand-ins for the top three of DMRetriever, Table 5."""

LLM = "smollm2-135m-instruct"

ADAPTERS = "adapter_config.json"
"""By it ``transformers`` and ``peft`` know that a folder has adapters."""

TEXTS = {"max_length", "pooling", "query_prefix", "passage_prefix", "append", "causal"}
"""Fields of a model that say how texts become its vectors."""


def reference_models(intent: str) -> tuple[str, str, str]:
    """The three reference models of an intent, best first: Table 5 with a hub, the offline three without.

    Raises:
        InputError: the assignment of the settings is unknown, or does not know the intent.

    Source: DMRetriever, Table 5.
    """
    found = settings()
    return assigned(found.assignment or ("offline" if found.profile == "offline" else "table-5"), intent)


def models_needed(intents: Iterable[str]) -> tuple[str, ...]:
    """The reference models of all these intents, once each, by the first that names them."""
    return tuple(dict.fromkeys(name for intent in intents for name in reference_models(intent)))


def is_served(spec: ModelSpec) -> bool:
    """Whether an endpoint is asked for its vectors: it has no weights to run here, or the settings say so."""
    return spec.only_served or spec.name in settings().served


def licences(*names: str) -> dict[str, str]:
    """Licence of each model's weights, by name."""
    return {name: get(name).licence for name in names}


def identity(name: str) -> dict[str, Any]:
    """What decides the vectors of ``name`` under the settings; part of the version of what is made with them.

    Its weights, how texts are given to it, and the versions of the libraries that turn a vector visibly: its tokenizer,
    and the runtime of int8 weights. Where an endpoint runs the model, what runs it there is not known.

    Raises:
        InputError: unknown, or one of these libraries is not installed, or a hub's branch has not been fetched.
    """
    spec = get(name)
    texts = spec.model_dump(include=TEXTS)
    if is_served(spec):
        return {"name": name, "served": spec.endpoint_name, "texts": texts}
    hub = hub_source(spec) if settings().profile == "hub" else None
    weights = {"name": name, "hub": f"{hub.id}@{commit_of(spec, hub, settings().cache)}"} if hub else spec.identity()
    libraries = ("tokenizers", "onnxruntime") if spec.backend == "onnx" and not hub else ("tokenizers",)
    return weights | {"texts": texts, "libraries": versions_of(*libraries)}


def folder(name: str) -> Path:
    """The folder with the weights of ``name``.

    Raises:
        InputError: not fetched, or fetched from another source or commit than the settings name.
    """
    spec = get(name)
    return checked(spec, path_of(spec, settings().cache), settings().profile, hub_source(spec))


def load_tokenizer(model: str | Path) -> Tokenizer:
    """The fast tokenizer of a registered model or of a folder; neither truncates nor pads, whatever was saved with it.

    Raises:
        InputError: the model is not here, or its folder has no ``tokenizer.json`` that can be read.
    """
    from tokenizers import Tokenizer

    path = (model if isinstance(model, Path) else folder(model)) / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"there is no {path}: fetch the model, or save its fast tokenizer")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare ones
        raise InputError(f"{path} is no tokenizer ({error}): save or fetch the model again") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def refuse_adapters(folder: Path) -> None:
    """See that no adapters lie beside a model's weights: ``transformers`` would lay them over the model, frozen.

    Those of our own models are in a folder of their own, and in the weights as well.

    Raises:
        InputError: there are some.
    """
    if (folder / ADAPTERS).exists():
        raise InputError(
            f"{str(folder)!r} has adapters beside its weights ({ADAPTERS}): merge them into the model, and save that "
            "again"
        )
