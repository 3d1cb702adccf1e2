"""Graphs as ONNX Runtime runs them on the processor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline_tasks.core.errors import InputError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


def open_session(graph: Path, threads: int) -> InferenceSession:
    """A graph, run by so many threads, which do not spin while they wait.

    Raises:
        InputError: the file is damaged, or no graph that the runtime knows.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # each of its errors is a class of its own
        raise InputError(f"{graph} cannot be read by ONNX Runtime ({error}): save or fetch the model again") from error
