"""Models by name, as steps use them: their folder in this machine's cache and what identifies their weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.models.fetch import RECORD, path_of
from pipeline_tasks.models.registry import get

if TYPE_CHECKING:
    from tokenizers import Tokenizer

REFERENCE_MODELS = ("bge-small-en-v1.5", "all-mpnet-base-v2", "all-minilm-l6-v2")
"""Three independent encoders, best first; the offline stand-ins for the top three of DMRetriever, Table 5."""

LLM = "smollm2-135m-instruct"


def identity(name: str) -> dict[str, str]:
    """What the weights of ``name`` are under the configured profile; part of the version of what is made with them."""
    spec = get(name)
    if settings().profile == "hub" and spec.hub:
        return {"name": name, "hub": spec.hub.pin}
    return spec.identity()


def folder(name: str) -> Path:
    """The folder with the weights of ``name``.

    Raises:
        InputError: not fetched, or fetched from another source than the profile names.
    """
    path = path_of(get(name), settings().cache)
    source = json.loads((path / RECORD).read_text("utf-8"))["source"]
    if source != settings().profile:
        raise InputError(
            f"model {name} in {path} came from source {source!r}, but the profile is {settings().profile!r}; "
            f"set FOUNDRY_PROFILE={source} or delete that folder and run `foundry models fetch {name}`"
        )
    return path


def load_tokenizer(model: str | Path) -> Tokenizer:
    """The fast tokenizer of a registered model or of a folder; neither truncates nor pads, whatever was saved with it.

    Raises:
        InputError: the model is not here, or its folder has no ``tokenizer.json``.
    """
    from tokenizers import Tokenizer

    path = (model if isinstance(model, Path) else folder(model)) / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"there is no {path}: fetch the model, or save its fast tokenizer")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
