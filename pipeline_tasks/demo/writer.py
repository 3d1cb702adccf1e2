"""Who writes the needs, queries and positives of a demo: the recording, a small model on loopback, or any endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import Settings
from pipeline_tasks.demo.recorded_llm import LICENCE, load_recording, serve_recorded
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.models.fetch import weights_of
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.serve_llm import serve
from pipeline_tasks.models.use import LLM

RECORDING, SMALL = "recording", "smollm2"
ROOM = 4_096
"""Tokens that are enough for the demo's short passages: endpoints that serve models with less than usual write, too."""


@dataclass(frozen=True)
class Writer:
    """A writer that answers.

    Attributes:
        llm: the endpoint's name of it, by which the lineage knows it.
        asked: what ``synthesize_pairs`` is asked for, besides its name.
        environment: variables in which steps find it.
    """

    llm: str
    asked: dict[str, object] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


@contextmanager
def writer(chosen: str, found: Settings, otherwise: str = "") -> Iterator[Writer]:
    """The chosen writer, answering inside the context.

    The recording says nothing where nothing was written, so it is asked for most intents of every passage; a small
    model on a processor is asked about a sample.

    Args:
        chosen: :data:`RECORDING`, :data:`SMALL`, or the name that the endpoint of the settings has for a model.
        found: the settings; their endpoint, where there is one, is used and no other.
        otherwise: who writes where nobody is chosen and no endpoint is configured.

    Raises:
        InputError: a model is named and no endpoint is configured, or one is and none of its models is named.
    """
    if found.openai_base_url:
        if chosen in ("", RECORDING, SMALL) and otherwise == RECORDING:
            raise InputError(
                f"OPENAI_BASE_URL is {found.openai_base_url}: name its model (make demo LLM=NAME), or unset it for the "
                f"recording and for LLM={SMALL}"
            )
        yield Writer(chosen, {"api": "chat", "context_tokens": ROOM, "concurrency": 8})
    elif (chosen or otherwise) == RECORDING:
        recording = load_recording(domain_folder())
        with serve_recorded(recording) as url:
            served = {"OPENAI_BASE_URL": url, "FOUNDRY_LLM_LICENCE": LICENCE}
            yield Writer(recording.name, {"intents_per_passage": 4, "concurrency": 8}, served)
    elif (chosen or otherwise) == SMALL:
        with serve(weights_of(get(LLM), found.cache), alias=LLM) as url:
            yield Writer(LLM, {"sample_rate": 0.45}, {"OPENAI_BASE_URL": url})
    else:
        raise InputError(
            f"LLM={chosen} is neither {RECORDING} nor {SMALL}: set OPENAI_BASE_URL to the endpoint that has it"
        )
