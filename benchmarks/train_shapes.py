"""Training throughput of the family's sizes on a graphics card, stage by stage, from random weights of their shapes.

Texts are random words, as long as real queries and passages are; batches have the rows that the size's stage has, or
``--rows`` where that is less: the gradient cache makes the memory, and nearly the speed, independent of their number.
What a step takes is timed after the first two. Operations are those of :mod:`pipeline_tasks.training.dry_run.cost`,
padding not counted; the peak is what a plain product of matrices in bfloat16 reaches on the same card.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from encode_shapes import VOCABULARY, peak_flops
from measure import finish, show
from short_trainings import NOTHING
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModel, AutoModelForCausalLM, BertConfig, PreTrainedTokenizerFast, Qwen3Config

from pipeline_tasks.models.shapes import SHAPES, Shape
from pipeline_tasks.models.sizes import get_size
from pipeline_tasks.training.adapt_backbone import AdaptParams, adapt
from pipeline_tasks.training.contrastive import train
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.dry_run.cost import Cost
from pipeline_tasks.training.loop import TrainResult
from pipeline_tasks.training.params import OptimiserParams, TrainParams

SIZES = ("335m", "596m", "4b", "7.6b")
STAGES = ("adapt", "pretrain", "finetune")
N_NEGATIVES, WARM = 9, 2
QUERY, PASSAGE = (24, 8, 62), (170, 60, 256)
"""Mean, standard deviation and most of the tokens that written queries and passages of guides have."""


def model_folder(shape: Shape, folder: Path) -> Path:
    """A transformers folder of that shape with random weights, made on the card, and one token a word."""
    common = {
        "hidden_size": shape.width, "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
        "intermediate_size": shape.mlp_width, "vocab_size": shape.vocabulary, "pad_token_id": 0,
    }  # fmt: skip
    torch.manual_seed(0)
    with torch.device("cuda"):
        if shape.architecture == "bert":
            model: Any = AutoModel.from_config(BertConfig(**common))
        else:
            grouped = {"num_key_value_heads": shape.key_value_heads, "head_dim": shape.head_width}
            config = Qwen3Config(**common, **grouped, tie_word_embeddings=shape.tied)
            model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    words = {"[PAD]": 0, "[UNK]": 1, "_": 2} | {f"w{i}": i + 3 for i in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    return folder


def texts_of(n: int, lengths: tuple[int, int, int], seed: int) -> list[str]:
    """So many texts of random words."""
    mean, deviation, most = lengths
    chance = np.random.default_rng(seed)
    sizes = np.clip(chance.normal(mean, deviation, n), 8, most).astype(int)
    return [" ".join(f"w{i}" for i in chance.integers(0, VOCABULARY, size)) for size in sizes]


def rows_of(n: int, n_negatives: int) -> Examples:
    """So many rows of a query, a positive and negatives."""
    queries, passages = texts_of(n, QUERY, 0), texts_of(n * (1 + n_negatives), PASSAGE, 1)
    positives, others = passages[:n], passages[n:]
    negatives = [others[row * n_negatives : (row + 1) * n_negatives] for row in range(n)]
    return Examples.of(queries, positives, negatives if n_negatives else None)


class Meter:
    """What steps report."""

    def __init__(self) -> None:
        """Of a training to come."""
        self.speeds: list[float] = []
        self.peak_gib = 0.0
        torch.cuda.reset_peak_memory_stats()

    def __call__(self, step: int, steps: int, facts: dict[str, float]) -> None:
        """As trainings call it."""
        self.speeds.append(facts["tokens_per_s"])
        self.peak_gib = facts["peak_gib"]

    @property
    def tokens_per_s(self) -> float:
        """Of the steps after the first ones."""
        return statistics.median(self.speeds[WARM:])


def params_of(size: str, stage: str, options: argparse.Namespace) -> OptimiserParams:
    """Those of a size's stage, its batches cut at ``--rows``."""
    own: Any = get_size(size).stage(stage)  # type: ignore[arg-type]
    pieces = {"micro_batch_tokens": options.piece, "recompute": options.recompute}
    common = {"size": size, "device": "cuda", "evals_per_epoch": 1, **pieces}
    if stage == "adapt":
        return AdaptParams(**common, epochs=1, batch_size=min(own.batch_size, options.rows))
    rows = min(own.batch_size, options.rows // (N_NEGATIVES + 1) if stage == "finetune" else options.rows)
    whole = {"in_batch": stage == "pretrain", "graph_tokens": options.graph}
    return TrainParams(**common, **whole, batch_size=rows, max_query_length=64, max_passage_length=256)


def run(size: str, stage: str, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """One training of a few steps."""
    params, meter = params_of(size, stage, options), Meter()
    n = params.batch_size * (WARM + options.steps)
    with tempfile.TemporaryDirectory(dir=options.room) as work:
        if isinstance(params, AdaptParams):
            texts = texts_of(n, PASSAGE, 2)
            blocks = partial(iter, [pa.array(texts)])
            result: TrainResult = adapt(folder, blocks, texts[:8], params, Path(work), meter)
            n_tokens, n_texts = sum(len(text.split()) for text in texts), n
        else:
            negatives = N_NEGATIVES if stage == "finetune" else 0
            result = train(rows_of(n, negatives), NOTHING, folder, params, Path(work), meter)  # type: ignore[arg-type]
            n_tokens, n_texts = n * (QUERY[0] + (1 + negatives) * PASSAGE[0]), n * (2 + negatives)
    del result
    gc.collect()
    torch.cuda.empty_cache()
    half = params.bf16
    cost = Cost(SHAPES[get_size(size).backbone], params.lora_rank, params.lora_targets, half, params.recompute)
    cached = stage == "pretrain" and n_tokens / (WARM + options.steps) > options.graph
    work_of_token = cost.step(n_tokens / n_texts, cached=cached)
    return {
        "rows": params.batch_size,
        "tokens_per_s": round(meter.tokens_per_s),
        "share_of_peak": round(meter.tokens_per_s * work_of_token / options.peak, 3),
        "peak_gib": round(meter.peak_gib, 1),
    }


def main() -> None:
    """Print a line a stage as it is done, the table, and one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=SIZES)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--steps", type=int, default=4, help="that are timed")
    parser.add_argument("--rows", type=int, default=256, help="of a batch at most, or texts of negatives and positives")
    parser.add_argument("--piece", type=int, default=16_384, help="micro_batch_tokens")
    parser.add_argument("--graph", type=int, default=32_768, help="graph_tokens")
    parser.add_argument("--recompute", action="store_true", help="activations are computed again for the gradient")
    parser.add_argument("--room", type=Path, help="folder for the weights, such as /dev/shm: 16 GB for 7.6b")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no graphics card is seen: this benchmark is for one")
    options.peak = peak_flops("cuda", "bfloat16")
    found: dict[str, dict[str, dict[str, float]]] = {}
    for size in options.sizes:
        with tempfile.TemporaryDirectory(dir=options.room) as place:
            folder = model_folder(SHAPES[get_size(size).backbone], Path(place))
            gc.collect()
            torch.cuda.empty_cache()
            for stage in options.stages:
                if stage == "adapt" and not get_size(size).decoder:
                    continue
                found.setdefault(size, {})[stage] = run(size, stage, folder, options)
                print(size, stage, found[size][stage], flush=True)
    columns = ("rows", "tokens_per_s", "share_of_peak", "peak_gib")
    lines = [(size, stage, *one.values()) for size, stages in found.items() for stage, one in stages.items()]
    title = f"{torch.cuda.get_device_name()}: {options.peak / 1e12:.0f} TFLOP/s in a product of matrices"
    show(title, ("size", "stage", *columns), lines)
    finish({"peak_tflops": round(options.peak / 1e12), **found})


if __name__ == "__main__":
    main()
