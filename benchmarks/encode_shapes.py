"""Throughput and utilisation of encoders with the family's shapes and random weights, on any device."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from pipeline_tasks.retrieval.open_encoder import load_encoder

VOCABULARY = 30_000
BERT = {
    "33m": {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 1536},
    "109m": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "335m": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
}
QWEN = {
    "596m": {
        "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
        "head_dim": 128, "intermediate_size": 3072, "vocab_size": 151_936,
    }
}  # fmt: skip


def model_folder(shape: str, folder: Path) -> Path:
    """A sentence-transformers folder of that shape with random weights and one token a word."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import AutoModel, BertConfig, Qwen3Config

    torch.manual_seed(0)
    if shape in QWEN:
        config: Any = Qwen3Config(**QWEN[shape], pad_token_id=0, is_causal=False)
    else:
        config = BertConfig(**BERT[shape], vocab_size=VOCABULARY + 2)
    AutoModel.from_config(config).save_pretrained(folder)
    words = {"[PAD]": 0, "[UNK]": 1} | {f"w{i}": i + 2 for i in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "1_Pooling").mkdir()
    written = {
        "modules.json": [{"path": "", "type": "a.Transformer"}, {"path": "1_Pooling", "type": "a.Pooling"}],
        "1_Pooling/config.json": {"pooling_mode": "mean"},
        "tokenizer_config.json": {"model_max_length": 512},
    }
    for name, content in written.items():
        (folder / name).write_text(json.dumps(content))
    return folder


def texts_of(n: int) -> tuple[list[str], np.ndarray]:
    """Texts of 8 to 256 words, most of them passages, and their lengths."""
    chance = np.random.default_rng(0)
    lengths = np.clip(chance.normal(170, 70, n), 8, 256).astype(int)
    return [" ".join(f"w{i}" for i in chance.integers(0, VOCABULARY, length)) for length in lengths], lengths


def flops(shape: str, lengths: np.ndarray) -> float:
    """Multiplications and additions of one pass, padding not counted."""
    of = BERT.get(shape) or QWEN[shape]
    width, inner, layers = of["hidden_size"], of["intermediate_size"], of["num_hidden_layers"]
    attention, feed_forward = 4 * width * width, 2 * width * inner
    heads_width = width
    if shape in QWEN:
        heads_width = of["num_attention_heads"] * of["head_dim"]
        attention = 2 * width * heads_width + 2 * width * of["num_key_value_heads"] * of["head_dim"]
        feed_forward = 3 * width * inner
    weights = layers * (attention + feed_forward)
    return float((2 * weights * lengths + 4 * layers * heads_width * lengths.astype(float) ** 2).sum())


def peak_flops(device: str, dtype_name: str) -> float:
    """What a plain matrix product reaches on the device."""
    import torch

    size = 8192 if device.startswith("cuda") else 2048
    a = torch.rand(size, size, dtype=getattr(torch, dtype_name), device=device)
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    times = []
    for _ in range(6):
        wait()
        began = time.perf_counter()
        torch.mm(a, a)
        wait()
        times.append(time.perf_counter() - began)
    return 2 * size**3 / min(times)


def measure_shapes(device: str, shapes: list[str], quick: bool, console: Console) -> dict[str, dict[str, float]]:
    """Print texts/s, tokens/s and the share of the device's matrix-product speed, a row a shape; give the same."""
    on_gpu = device.startswith("cuda")
    precision = "bfloat16" if on_gpu else "float32"
    peak = sum(peak_flops(one, precision) for one in device.split(","))
    n = (2_000 if quick else 40_000) if on_gpu else 32
    texts, lengths = texts_of(n)
    table = Table("shape", "texts", "seconds", "texts/s", "tokens/s", "TFLOP/s", "of peak")
    found = {}
    for shape in shapes:
        with tempfile.TemporaryDirectory() as folder:
            encoder = load_encoder(model_folder(shape, Path(folder) / shape), Path(folder), 2, device, precision)
            encoder.encode(texts[: n // 8])
            began = time.perf_counter()
            encoder.encode(texts)
            spent = time.perf_counter() - began
        reached = flops(shape, lengths) / spent
        row = {"texts_per_s": n / spent, "tokens_per_s": lengths.sum() / spent, "utilisation": reached / peak}
        found[shape] = {name: round(float(value), 3) for name, value in row.items()}
        rates = (f"{row['texts_per_s']:,.0f}", f"{row['tokens_per_s']:,.0f}", f"{reached / 1e12:.2f}")
        table.add_row(shape, f"{n:,}", f"{spent:.2f}", *rates, f"{reached / peak:.0%}")
    console.print(table)
    console.print(f"matrix product of {precision} on {device}: {peak / 1e12:.2f} TFLOP/s")
    return found
