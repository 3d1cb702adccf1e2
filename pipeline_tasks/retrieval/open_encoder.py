"""The encoder of a model or of a folder: its files and the settings say what runs it, and where."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.encoders.devices import devices
from pipeline_tasks.encoders.layout import check_comparison, layout_of, layout_of_spec
from pipeline_tasks.models.fetch import path_of
from pipeline_tasks.models.registry import ModelSpec, get
from pipeline_tasks.models.use import folder as folder_of
from pipeline_tasks.models.use import is_served, load_tokenizer
from pipeline_tasks.retrieval.encoder import Encoder
from pipeline_tasks.retrieval.torch_encoder import TorchEncoder, TorchSource

Precision = Literal["float32", "bfloat16", "float16", "int8"]


def instructions_of(spec: ModelSpec) -> dict[str, str]:
    """Intent -> instruction of the configured domain, for a model that wants them."""
    if not spec.is_instructed:
        return {}
    return {name: intent.instruction for name, intent in load_intents(domain_folder()).items()}


def load_encoder(
    model: ModelSpec | Path,
    cache_dir: Path,
    threads: int = 2,
    device: str = "cpu",
    precision: Precision = "float32",
) -> Encoder:
    """The encoder of a registered model or of any model's folder; its files say what runs it.

    Args:
        model: what to encode with.
        cache_dir: where registered models lie.
        threads: of a processor.
        device: ``cpu``, ``cuda:1``, or several joined by commas: a process each.
        precision: see :class:`~pipeline_tasks.retrieval.torch_encoder.TorchEncoder`; ``int8`` runs on ONNX Runtime.

    Raises:
        InputError: the model is not in the cache, is only served, has another width than the registry states, or its
            folder is of no kind that is supported.
    """
    if isinstance(model, ModelSpec):
        if model.only_served:
            raise InputError(
                f"{model.name} cannot be run here ({model.note or 'no weights'}): serve it at an OpenAI-compatible "
                "endpoint and set FOUNDRY_EMBEDDINGS_BASE_URL"
            )
        folder = path_of(model, cache_dir)
        source = TorchSource(model.name, folder, layout_of_spec(model, folder, instructions_of(model)), threads)
    else:
        check_comparison(model)
        source = TorchSource(model.name, model, layout_of(model), threads)
    encoder = _encoder(source, device, precision)
    if isinstance(model, ModelSpec) and encoder.dim != model.dim:
        raise InputError(f"{model.name} gives {encoder.dim} numbers, the registry states {model.dim}: mend its dim")
    return encoder


def _encoder(source: TorchSource, device: str, precision: Precision) -> Encoder:
    graph = source.folder / "model.onnx"
    if precision == "int8" or graph.is_file():
        from pipeline_tasks.retrieval.onnx_encoder import OnnxEncoder
        from pipeline_tasks.retrieval.onnx_int8 import quantised

        graph = graph if graph.is_file() else quantised(source)
        return OnnxEncoder(source.name, graph, source.layout, load_tokenizer(source.folder), source.threads)
    source = replace(source, precision=precision)
    names = tuple(device.split(","))
    if len(names) == 1:
        return TorchEncoder(source, device)
    from pipeline_tasks.retrieval.multi_device_encoder import MultiDeviceEncoder

    return MultiDeviceEncoder(source, names)


def is_exact_only(name: str) -> bool:
    """Whether ``precision`` has no say: an endpoint serves the model, or its offline package brings a graph."""
    spec = get(name)
    return is_served(spec) or (spec.backend == "onnx" and settings().profile != "hub")


@lru_cache(maxsize=2)
def _opened(name: str, precision: Precision) -> Encoder:
    return load_encoder(get(name), settings().cache, settings().threads, devices(), precision)


def open_encoder(name: str, precision: Precision = "float32") -> Encoder:
    """The registered encoder of that name, run here under the settings; the last two opened stay loaded.

    Raises:
        InputError: unknown, asked of an endpoint, not fetched, or fetched from another source than the settings name.
    """
    if is_served(get(name)):
        raise InputError(f"{name} is asked of an endpoint, whose vectors need a store: run it as a step")
    folder_of(name)
    return _opened(name, precision)
