import os
import signal

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.encoders.tokens import padded
from pipeline_tasks.retrieval import torch_encoder
from pipeline_tasks.retrieval.open_encoder import load_encoder
from tests.retrieval.tiny import WORDS, decoder

TEXTS = [" ".join(np.random.default_rng(seed).choice(WORDS, 1 + seed % 9)) for seed in range(40)]


def test_two_processes_give_the_bytes_of_one_and_say_when_one_is_gone(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline_tasks.retrieval.multi_device_encoder.batch_tokens", lambda device: 32)
    monkeypatch.setattr(torch_encoder, "batch_tokens", lambda device: 32)
    folder = decoder(tmp_path / "m")
    spread = load_encoder(folder, tmp_path, threads=1, device="cpu,cpu")
    seen = []
    vectors = spread.encode(TEXTS, progress=seen.append)
    np.testing.assert_array_equal(vectors, load_encoder(folder, tmp_path, threads=1).encode(TEXTS))
    assert sum(seen) == len(TEXTS) and len(seen) > 4
    cut = []
    batches = (cut.append(n) or padded([np.array([5, 6])], 0) for n in range(100))
    assert next(spread._pooled_each(batches)).shape == (1, 32) and len(cut) < 20, "no whole corpus is held at once"
    workers = list(spread._pool._processes)
    assert len(workers) == 2 and os.getpid() not in workers
    os.kill(workers[0], signal.SIGKILL)
    with pytest.raises(TransientError, match="encoder process on one of cpu, cpu ended"):
        for _ in range(50):
            spread.encode(TEXTS)


def test_what_is_wrong_with_the_model_is_told_as_it_is(tmp_path):
    folder = decoder(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="no model that transformers can load"):
        load_encoder(folder, tmp_path, device="cpu,cpu")
