"""Memory and time from the texts of training rows to a schedule of batches: does it grow with the rows alone?

Pairs, or rows with hard negatives that several rows share, of made-up words; every query is another. Told are the peak
of a process of its own, that of a tenth of the rows, the bytes that a row more takes, and how far that leads.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from measure import finish, measured, show

from pipeline_tasks.encoders.tokens import TextTokens
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.models.use import folder, load_tokenizer
from pipeline_tasks.training.data.examples import Examples, block
from pipeline_tasks.training.data.rows import tokenized
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.schedule import plan_schedule

BLOCK = 10_000
QUERY, PASSAGE = 6, 12
GIB = 1 << 30


def blocks(rows: int, negatives: int, pool: int) -> Iterator[pa.Table]:
    """So many rows, a block at a time; negatives are of ``pool`` passages."""
    chance = random.Random(0)
    words = [f"{a}{b}" for a in "bcdfghjklm" for b in ("a", "e", "i", "o", "u", "an", "en", "in", "on", "un")]

    def text(n: int, number: int) -> str:
        return f"{' '.join(chance.choices(words, k=n))} {number}"

    shared = [text(PASSAGE, number) for number in range(pool)] if negatives else []
    for start in range(0, rows, BLOCK):
        numbers = range(start, min(rows, start + BLOCK))
        queries, positives = ([text(n, number) for number in numbers] for n in (QUERY, PASSAGE))
        own = [chance.sample(shared, negatives) for _ in numbers] if negatives else None
        yield block(queries, positives, own)


def scheduled(rows: int, negatives: int, batch: int) -> int:
    """Steps of one epoch, all texts tokenised on the way."""
    start = folder(backbone("22m").name)
    tokens = TextTokens(load_tokenizer(start))
    examples = Examples(partial(blocks, rows, negatives, max(100, rows // 10)))
    params = TrainParams(size="22m", device="cpu", batch_size=batch, in_batch=not negatives)
    with tempfile.TemporaryDirectory() as place:
        data = tokenized(examples, tokens, Path(place), max_query_length=64, max_passage_length=192)
        assert len(data) == rows
        return len(plan_schedule(data, params))


def main() -> None:
    """Measure both sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--negatives", type=int, default=0, help="of a row")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--wanted", type=int, default=15_000_000, help="rows whose memory is extrapolated")
    asked = parser.parse_args()
    sizes = (asked.rows // 10, asked.rows)
    few, many = (measured(scheduled, n, asked.negatives, asked.batch) for n in sizes)
    per_row = (many.peak_mib - few.peak_mib) * (1 << 20) / (0.9 * asked.rows)
    expected = (many.peak_mib * (1 << 20) + per_row * (asked.wanted - asked.rows)) / GIB
    rows = [
        [f"{n:,}", one.value, one.seconds, one.peak_mib] for n, one in ((asked.rows // 10, few), (asked.rows, many))
    ]
    show(f"rows of {asked.negatives} negatives", ("rows", "steps", "seconds", "peak MiB"), rows)
    finish(
        {
            "peak_mib": round(many.peak_mib),
            "bytes_a_row": round(per_row),
            f"gib_of_{asked.wanted}": round(expected, 2),
            "growth_of_time": round(many.seconds / few.seconds, 1),
        }
    )


if __name__ == "__main__":
    main()
