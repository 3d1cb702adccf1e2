"""Pairs per second of contrastive learning through a gradient cache, beside sentence-transformers' cached trainer.

Both start from all-MiniLM-L6-v2 and learn from the same batches of 256 queries and passages in the same order, with the
optimiser, the rates, the clipping and the own dropout of the model alike. How large pieces of a batch may be is tried
first, and each takes its fastest, or one that is about as fast and takes less memory. What is timed is the whole
training call, loading and tokenising included.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from judged_sets import disaster_guides
from measure import Measured, finish, measured, show, spread, turns

from pipeline_tasks.core.settings import settings
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.models.use import folder, load_tokenizer
from pipeline_tasks.training.compute.batches import plan_batches
from pipeline_tasks.training.params import TrainParams

DATA = Path("../shared/data/ir/disaster_guides")
MODEL = backbone("22m").name
BATCH, EPOCHS, LENGTH = 256, 2, 256
OURS, THEIRS = "ours", "sentence-transformers"
PIECES = {OURS: (512, 1024, 2048, 4096), THEIRS: (8, 16, 32, 64)}
AS_FAST = 1.04
"""How much of the fastest piece's time a leaner one may take."""
# Deciles of the tokens that the queries and their passages have in the written pairs on disaster guides.
QUERY_TOKENS = (8, 16, 18, 20, 21, 23, 25, 27, 30, 35, 62)
PASSAGE_TOKENS = (26, 78, 113, 148, 172, 187, 204, 218, 232, 245, 257)
Pair = tuple[str, str]
os.environ["HF_HUB_OFFLINE"] = "1"  # their model card would wait for a hub


@dataclass(frozen=True)
class Work:
    """A training: whose trainer, how large its pieces of a batch are, and on what.

    ``piece`` counts tokens with us and texts with sentence-transformers, as each has it.
    """

    system: str
    piece: int
    pairs: list[Pair]
    batch: int
    epochs: int
    dropout: bool = True


@dataclass(frozen=True)
class Run:
    """Loss of every step, and the seconds of the processors."""

    losses: list[float]
    processor_s: float


def written_pairs(data: Path, n: int) -> list[Pair]:
    """The first ``n`` pairs of query and source passage, no passage twice; made ones where there is no ``data``."""
    if not data.is_dir():
        print(f"no {data}: words in a random order, as many as its queries and passages have")
        return made_pairs(n)
    found = disaster_guides(data)
    by_passage = {pair.passage_id: (pair.query, found.passages[pair.passage_id]) for pair in found.pairs}
    return list(by_passage.values())[:n]


def made_pairs(n: int, seed: int = 0) -> list[Pair]:
    """Pairs of random words of one token, of the lengths of the written ones; a query's words are of its passage."""
    chance = random.Random(seed)
    words = sorted(word for word in load_tokenizer(MODEL).get_vocab() if word.isascii() and word.isalpha())
    at = np.random.default_rng(seed).uniform(0, 10, (2, n))
    lengths = [np.interp(at[i], range(11), deciles) for i, deciles in enumerate((QUERY_TOKENS, PASSAGE_TOKENS))]
    pairs = []
    for asked, given in zip(*lengths, strict=True):
        passage = chance.choices(words, k=int(given) - 2)
        pairs.append((" ".join(chance.choices(passage, k=int(asked) - 2)), " ".join(passage)))
    return pairs


def params_of(work: Work) -> TrainParams:
    """The hyperparameters of both."""
    lengths = {"max_query_length": LENGTH, "max_passage_length": LENGTH, "micro_batch_tokens": work.piece}
    chosen = {"batch_size": work.batch, "epochs": work.epochs, "in_batch": True, "precision": "fp32"}
    return TrainParams(size="22m", device="cpu", warmup_ratio=0.0, **lengths, **chosen)


def start(dropout: bool, place: Path) -> Path:
    """The folder of the weights that both start from, below ``place`` and told not to drop anything unless asked."""
    copy = shutil.copytree(folder(MODEL), place / "start")
    if not dropout:
        config = json.loads((copy / "config.json").read_text("utf-8"))
        config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        (copy / "config.json").write_text(json.dumps(config), "utf-8")
    return copy


def ours(work: Work, place: Path) -> list[float]:
    """The pipeline's own trainer, tokens and checkpoints on disk included."""
    from pipeline_tasks.training.contrastive import train
    from pipeline_tasks.training.data.examples import Examples

    rows = Examples.of(*zip(*work.pairs, strict=True))
    begin = start(work.dropout, place)
    result = train(rows, Examples.of(), begin, params_of(work), place / "work", threads=settings().threads)
    return list(result.losses)


def theirs(work: Work, place: Path) -> list[float]:
    """``SentenceTransformerTrainer`` with the cached loss; it is given the rows in the order that ours has."""
    import torch
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.training_args import SentenceTransformerTrainingArguments
    from torch.utils.data import SequentialSampler

    torch.set_num_threads(settings().threads)
    params = params_of(work)
    rows = [work.pairs[i] for i in order(work)]
    model = SentenceTransformer(str(start(work.dropout, place)), device="cpu")
    model.max_seq_length = LENGTH
    asked = SentenceTransformerTrainingArguments(
        output_dir=str(place / "work"),
        use_cpu=True,
        num_train_epochs=1,
        per_device_train_batch_size=work.batch,
        learning_rate=params.learning_rate,
        weight_decay=params.weight_decay,
        max_grad_norm=params.max_grad_norm,
        warmup_steps=0,
        save_strategy="no",
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
        batch_sampler=lambda rows, **others: DefaultBatchSampler(SequentialSampler(rows), **others),
    )
    loss = CachedMultipleNegativesRankingLoss(model, scale=1 / params.temperature, mini_batch_size=work.piece)
    columns = dict(zip(("anchor", "positive"), map(list, zip(*rows, strict=True)), strict=True))
    trainer = SentenceTransformerTrainer(model, asked, Dataset.from_dict(columns), loss=loss)
    trainer.train()
    return [line["loss"] for line in trainer.state.log_history if "loss" in line]


def order(work: Work) -> list[int]:
    """The pairs in the order in which ours learns from them."""
    each = np.arange(len(work.pairs))
    params = params_of(work)
    plans = [plan_batches(len(each), work.batch, params.seed, epoch, (each, each)) for epoch in range(work.epochs)]
    return [int(row) for plan in plans for batch in plan for row in batch]


def prepare(work: Work) -> Work:
    """Import what the system needs, so that only training is timed."""
    if work.system == OURS:
        import transformers.modeling_utils  # noqa: F401  # which comes with sentence-transformers' losses

        import pipeline_tasks.training.contrastive  # noqa: F401
    else:
        import sentence_transformers.sentence_transformer.losses  # noqa: F401
    return work


def learn(work: Work) -> Run:
    """Train once."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as place:
        losses = {OURS: ours, THEIRS: theirs}[work.system](work, Path(place))
    return Run(losses, time.process_time() - began)


def best_piece(system: str, work: Work) -> int:
    """The piece with which that system takes the least memory, of those that are about as fast as its fastest."""
    tried = {piece: measured(learn, Work(system, piece, *_rest(work)), prepare=prepare) for piece in PIECES[system]}
    rows = [[piece, got.value.processor_s, got.seconds, got.peak_mib] for piece, got in tried.items()]
    show(f"{system}: one batch of {work.batch} pairs", ("piece", "processor s", "wall s", "peak MiB"), rows)
    limit = AS_FAST * min(got.seconds for got in tried.values())
    return min((p for p in tried if tried[p].seconds <= limit), key=lambda piece: tried[piece].peak_mib)


def _rest(work: Work) -> tuple[list[Pair], int, int, bool]:
    return work.pairs, work.batch, work.epochs, work.dropout


def main() -> None:
    """Try the pieces, take the turns, print the table, the losses and the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="batches of 16 pairs: does it run?")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the pairs")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="of two batches each")
    parser.add_argument("--no-dropout", action="store_true", help="of either: their losses are then the same")
    asked = parser.parse_args()
    batch = 16 if asked.quick else BATCH
    pairs = written_pairs(asked.data, 2 * batch)
    dropout = not asked.no_dropout
    one = Work("", 0, pairs[:batch], batch, 1, dropout)
    pieces = {system: each[1] if asked.quick else best_piece(system, one) for system, each in PIECES.items()}
    runs = turns(PIECES, partial(_turn, pieces=pieces, work=Work("", 0, pairs, batch, asked.epochs, dropout)))
    report(runs, pieces, 2 * batch * asked.epochs)


def _turn(system: str, pieces: dict[str, int], work: Work) -> Measured:
    return measured(learn, Work(system, pieces[system], *_rest(work)), prepare=prepare)


def report(runs: dict[str, list[Measured]], pieces: dict[str, int], n_pairs: int) -> None:
    """Print what was seen; ratios are of the best turns."""
    wall = {system: min(run.seconds for run in got) for system, got in runs.items()}
    processor = {system: min(run.value.processor_s for run in got) for system, got in runs.items()}
    peak = {system: max(run.peak_mib for run in got) for system, got in runs.items()}
    losses = {system: got[0].value.losses for system, got in runs.items()}
    spreads = {system: spread(run.seconds for run in got) for system, got in runs.items()}
    show(
        f"{n_pairs} pairs, {settings().threads} threads",
        ("system", "piece", "pairs/s", "pairs a processor second", "spread", "peak MiB", "loss of each step"),
        [
            (s, pieces[s], n_pairs / wall[s], n_pairs / processor[s], spreads[s], peak[s])
            + (" ".join(f"{loss:.4f}" for loss in losses[s]),)
            for s in runs
        ],
    )
    figures = {
        "ratio_pairs_per_s": round(wall[THEIRS] / wall[OURS], 2),
        "ratio_pairs_per_processor_s": round(processor[THEIRS] / processor[OURS], 2),
        "memory_ratio": round(peak[OURS] / peak[THEIRS], 2),
        "final_loss": round(losses[OURS][-1], 4),
        "final_loss_peer": round(losses[THEIRS][-1], 4),
    }
    print(f"beside whatever else ran here: {figures}")
    finish(figures, spreads)


if __name__ == "__main__":
    main()
