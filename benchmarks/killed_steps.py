"""Steps that ask an LLM, run by the command line as a user calls it, and ended by SIGKILL where that is wanted."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.faulty_llm import PRICE_IN, PRICE_OUT, FaultyLLM

_LOOK_S = 0.02


def run(
    step: str, root: Path, there: FaultyLLM, params: Mapping[str, Any], *, kill_at: int = 0, says: Path | None = None
) -> int:
    """Run a step as a user does; its exit code, which is ``-SIGKILL`` where it was ended at so many bills.

    Args:
        step: its name.
        root: folder of the store.
        there: the endpoint that it asks.
        params: its parameters.
        kill_at: keys on the bill at which its whole process group is killed; 0: never.
        says: file for what it writes to the standard error.
    """
    ours = {
        "FOUNDRY_STORE": str(root),
        "OPENAI_BASE_URL": there.url,
        "FOUNDRY_LLM_PRICE_IN": str(PRICE_IN),
        "FOUNDRY_LLM_PRICE_OUT": str(PRICE_OUT),
    }
    sets = [word for name, value in params.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "pipeline_tasks.cli.main", "run", step, *sets]
    with (says or Path(os.devnull)).open("wb") as file:
        process = subprocess.Popen(
            command,
            env=os.environ | ours,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=file if says else None,
        )
        try:
            while process.poll() is None and not (kill_at and len(there.billed) >= kill_at):
                time.sleep(_LOOK_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode


def stored(root: Path) -> set[str]:
    """Names of the requests whose answers are kept."""
    from pipeline_tasks.core.store import LocalStore

    return {key.rpartition("/")[2].removesuffix(".json") for key in LocalStore(root).keys("responses")}


def processor_s() -> float:
    """Seconds of a processor that all ended children took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def peak_mib() -> float:
    """Largest resident size that any ended child had."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
