"""A small language model behind an OpenAI-compatible server on this machine, as long as somebody needs it.

The server (llama.cpp through ``xllamacpp``) runs in a child process of its own session. The child reads its
standard input and ends when that closes: so it ends with the context, and also when its parent is killed and
cannot tidy up. One slot with the prompt cache on: calls that begin with the same examples pay for them once.

One thread is the default on purpose. Two threads meet at a barrier after every operation of every token, so
on a machine that has other work each token waits for the scheduler: measured on two busy cores, 40 tokens
took 0.6 s with one thread and 11 to 50 s with two (0.37 s when the machine was idle).

    python -m pipeline_tasks.models.serve_llm --model MODEL.gguf --port 8080     serve in the foreground,
    until Ctrl-C; the folder of a model does as well
"""

import argparse
import logging
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pipeline_tasks.core.errors import InputError, TransientError

log = logging.getLogger(__name__)
_END_S = 5.0
_LOG_TAIL = 2000


@contextmanager
def serve(
    model_path: Path,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    threads: int = 1,
    context: int = 4096,
    alias: str | None = None,
    start_timeout_s: float = 120.0,
) -> Iterator[str]:
    """Serve a GGUF file inside the context; yields the base URL (``http://HOST:PORT/v1``) once it answers.

    Port 0 takes a free port. Answers at temperature 0 are greedy, so the same requests in the same order get
    the same answers.

    Args:
        model_path: the GGUF file.
        host: address to bind; anything but loopback lets others use the model, without a key.
        port: port to bind.
        threads: threads of the model; more than one only on cores that nothing else uses.
        context: tokens of prompt and answer together.
        alias: name of the model in requests and answers; the file's stem unless given.
        start_timeout_s: how long loading may take.

    Raises:
        InputError: there is no such file, or the server cannot load it or bind the port.
        TransientError: the server is not up in time.
    """
    model_path = model_file(model_path)
    arguments = _arguments(model_path, host, port, threads, context, alias) + ["--child"]
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", __name__, *arguments],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            start_new_session=True,
        )
        try:
            url = _address(child, start_timeout_s, output)
            log.info("serving %s at %s (pid %d)", model_path.name, url, child.pid)
            yield url
        finally:
            _end(child)


def model_file(path: Path) -> Path:
    """The file that is named, or the only GGUF file of the folder that is.

    Raises:
        InputError: there is no such file or folder, or the folder has none or several of them.
    """
    found = sorted(path.glob("*.gguf")) if path.is_dir() else [path] if path.is_file() else []
    if len(found) != 1:
        has = f"has {len(found)} .gguf files" if path.is_dir() else "is no model file"
        raise InputError(f"{path} {has}: run `foundry models fetch`, or name a .gguf file")
    return found[0]


def _arguments(model_path: Path, host: str, port: int, threads: int, context: int, alias: str | None) -> list[str]:
    values = {
        "model": model_path.resolve(),
        "host": host,
        "port": port,
        "threads": threads,
        "context": context,
    }
    pairs = [f"--{name}={value}" for name, value in values.items()]
    return pairs + ([f"--alias={alias}"] if alias else [])


def _address(child: subprocess.Popen[bytes], timeout_s: float, output: IO[bytes]) -> str:
    """The one line that the child writes when the model is loaded."""
    lines = child.stdout
    if lines is None:
        raise ValueError("the child's standard output is not a pipe")
    ready, _, _ = select.select([lines], [], [], timeout_s)
    if not ready:
        raise TransientError(
            f"the language model was not loaded in {timeout_s:g} s: give it more time, or a smaller model"
        )
    line = lines.readline().decode().strip()
    if not line:
        child.wait(_END_S)
        output.seek(0)
        tail = output.read()[-_LOG_TAIL:].decode(errors="replace").strip()
        raise InputError(f"the language model server ended with exit code {child.returncode} before it was up: {tail}")
    return line


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child by closing its input; by a signal to its own process group where that is not enough."""
    if child.stdin:
        child.stdin.close()
    try:
        child.wait(_END_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if child.stdout:
        child.stdout.close()


def start(model_path: Path, host: str, port: int, threads: int, context: int, alias: str | None) -> tuple[object, str]:
    """Load the model into this process and serve it from background threads.

    Returns the server, which serves for as long as it is referenced, and its base URL.
    """
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model_path)
    params.model_alias = {alias or model_path.stem}
    params.hostnames = [host]
    params.port = port
    params.n_ctx = context
    params.n_parallel = 1
    params.cache_prompt = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cpuparams.poll = params.cpuparams_batch.poll = 0
    params.ui = False
    params.verbosity = 0
    server = xllamacpp.Server(params)
    return server, f"{server.listening_address}/v1"


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM, or with ``--child`` until standard input closes."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline_tasks.models.serve_llm", description="Serve a GGUF model, OpenAI-compatible."
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--alias")
    parser.add_argument("--child", action="store_true", help="end when standard input closes")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        path = model_file(args.model)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    server, url = start(path, args.host, args.port, args.threads, args.context, args.alias)
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()
    try:
        sys.stdin.buffer.read() if args.child else threading.Event().wait()
    except KeyboardInterrupt:
        log.info("asked to stop")
    finally:
        del server
    return 0


if __name__ == "__main__":
    os._exit(main())
