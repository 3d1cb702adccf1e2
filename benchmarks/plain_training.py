"""The plain script that a training is measured against: one epoch of in-batch InfoNCE in sixty lines, nothing of ours.

What most people would write: transformers, AdamW, 10% warm-up and linear decay, cosines times 50, a random order. The
queries and their passages are cut at 192 tokens; no development set, no checkpoint, no masking of known answers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoModel, AutoTokenizer, get_linear_schedule_with_warmup

LENGTH, BATCH, RATE, SCALE = 192, 32, 2e-5, 50.0


def embed(model: torch.nn.Module, tokenizer: object, texts: Sequence[str], bf16: bool = False) -> Tensor:
    """Mean-pooled, L2-normalised vectors [n, d]."""
    batch = tokenizer(list(texts), padding=True, truncation=True, max_length=LENGTH, return_tensors="pt").to(
        model.device
    )
    with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
        hidden = model(**batch).last_hidden_state.float()
    mask = batch["attention_mask"].unsqueeze(-1).float()
    return functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)


def batches(pairs: Sequence[tuple[str, str]], seed: int) -> Iterator[list[tuple[str, str]]]:
    """The pairs in a random order, 32 at a time; the rest is left out."""
    order = list(pairs)
    random.Random(seed).shuffle(order)
    for start in range(0, len(order) - BATCH + 1, BATCH):
        yield order[start : start + BATCH]


def train_plain(
    folder: Path, pairs: Sequence[tuple[str, str]], seed: int, threads: int, bf16: bool, device: str = "cpu"
) -> tuple[object, object]:
    """The trained model and its tokenizer, after one epoch over (query, passage)."""
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    model = AutoModel.from_pretrained(folder, local_files_only=True).to(device)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    steps = len(pairs) // BATCH
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    schedule = get_linear_schedule_with_warmup(optimizer, int(0.1 * steps), steps)
    model.train()
    for batch in batches(pairs, seed):
        queries, passages = zip(*batch, strict=True)
        scores = embed(model, tokenizer, queries, bf16) @ embed(model, tokenizer, passages, bf16).T * SCALE
        functional.cross_entropy(scores, torch.arange(len(batch), device=device)).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model.eval(), tokenizer


def vectors(model: torch.nn.Module, tokenizer: object, texts: Sequence[str], bf16: bool) -> Tensor:
    """Vectors [n, d] of many texts, in their order."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    with torch.no_grad():
        some = (
            embed(model, tokenizer, [texts[i] for i in order[at : at + 64]], bf16) for at in range(0, len(order), 64)
        )
        return torch.cat(list(some))[torch.tensor(order).argsort()]
