import os
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.models.serve_llm import model_file, serve

PROMPT = "Passage: The river will crest at noon; move to high ground.\nQuestion: What should people do?\n\n" * 4
PARENT = """
import os, signal, sys
from pathlib import Path
from pipeline_tasks.models.serve_llm import model_file, serve

with serve(Path(sys.argv[1])) as url:
    print(url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def gguf(fetched):
    return next(fetched("smollm2-135m-instruct").glob("*.gguf"))


@pytest.fixture(scope="module")
def url(gguf):
    with serve(gguf, alias="small") as base_url:
        yield base_url


def complete(url, prompt=PROMPT, **more):
    body = {"model": "small", "prompt": prompt, "max_tokens": 8, "temperature": 0} | more
    return httpx.post(f"{url}/completions", json=body, timeout=120).raise_for_status().json()


def ended(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:  # the server had not read the whole of what came last
        return True


def test_the_model_answers_under_its_alias(url):
    assert [model["id"] for model in httpx.get(f"{url}/models").json()["data"]] == ["small"]
    assert complete(url)["usage"]["completion_tokens"] == 8


def test_at_temperature_0_the_answer_is_always_the_same_and_the_prefix_is_cached(url):
    first, again = complete(url), complete(url)
    assert first["choices"][0]["text"] == again["choices"][0]["text"] != ""
    used = again["usage"]
    assert used["prompt_tokens"] - used["prompt_tokens_details"]["cached_tokens"] <= 4


def test_log_probabilities_are_real(url):
    content = complete(url, logprobs=1)["choices"][0]["logprobs"]["content"]
    assert len(content) == 8
    assert all(-50 < token["logprob"] <= 0 for token in content)


def test_it_binds_loopback_only(url):
    assert httpx.URL(url).host == "127.0.0.1"


def test_the_port_is_free_after_the_context_even_after_an_error(gguf):
    seen = []
    with pytest.raises(ZeroDivisionError), serve(gguf) as base_url:
        seen.append(base_url)
        raise ZeroDivisionError
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{seen[0]}/models")


def test_it_ends_when_its_parent_is_killed(gguf):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(gguf)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    base_url = parent.stdout.readline().decode().strip()
    assert httpx.get(f"{base_url}/models").status_code == 200
    with socket.create_connection((httpx.URL(base_url).host, httpx.URL(base_url).port)) as watched:
        os.kill(parent.pid, signal.SIGKILL)
        parent.communicate()
        watched.settimeout(20)
        assert ended(watched)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{base_url}/models")


def test_a_missing_file_is_the_callers_error(tmp_path):
    with pytest.raises(InputError, match=r"absent\.gguf"), serve(tmp_path / "absent.gguf"):
        pass


def test_a_folder_stands_for_its_only_model_and_any_other_is_told_in_a_line(gguf, tmp_path):
    assert model_file(gguf.parent) == gguf
    command = [sys.executable, "-m", "pipeline_tasks.models.serve_llm", "--model", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{tmp_path} has 0 .gguf files: run `foundry models fetch`, or name a .gguf file\n"


def test_a_file_that_is_no_model_is_the_callers_error(tmp_path):
    (tmp_path / "broken.gguf").write_bytes(b"GGUF but not really")
    with pytest.raises(InputError, match="before it was up"), serve(tmp_path / "broken.gguf"):
        pass


def test_a_port_in_use_is_the_callers_error(gguf, url):
    with pytest.raises(InputError, match="before it was up"), serve(gguf, port=httpx.URL(url).port):
        pass
