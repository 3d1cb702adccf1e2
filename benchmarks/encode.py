"""Texts per second of the encoders beside sentence-transformers, same weights, same texts, two threads.

``python benchmarks/encode.py``: all-MiniLM-L6-v2 on the processor, texts cut from the sample corpus; each system in a
process of its own, one after the other, three turns. ``--device cuda``: models of the family's shapes with random
weights. The last line is one JSON object; ratios are their time over ours.
"""

from __future__ import annotations

import argparse
import random
import re
import resource
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from encode_shapes import measure_shapes
from measure import finish, spread, turns
from rich.console import Console
from rich.table import Table

from pipeline_tasks.core.settings import settings
from pipeline_tasks.corpus.chunking.passages import Chunker
from pipeline_tasks.models.fetch import path_of
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.use import load_tokenizer

MODEL = "all-minilm-l6-v2"
SAMPLE = Path(__file__).parents[1] / "pipeline_tasks/domains/disaster/sample"
THREADS = 2
SIZES = (50, 150, 450)
SYSTEMS = ("sentence-transformers", "torch", "onnx int8")
_open: dict[str, Any] = {}


def sample_texts(n: int) -> list[str]:
    """What the pipeline encodes: half passages as they are chunked, half queries and short positives (sentences)."""
    chunk = Chunker(load_tokenizer(MODEL), 255)
    passages, short = [], []
    for path in sorted(SAMPLE.glob("*.md")):
        text = path.read_text("utf-8").split("+++")[-1]
        passages += [text[found.start : found.end] for found in chunk(text)]
        sentences = [s for s in re.split(r"(?<=[.!?])\s+", text) if len(s.split()) > 3]
        short += sentences + [" ".join(sentences[i : i + 3]) for i in range(0, len(sentences), 3)]
    chance = random.Random(0)
    whole = [chance.choice(passages) + f" ({i})" for i in range(n // 2)]
    return chance.sample(whole + [chance.choice(short) + f" ({i})" for i in range(n - n // 2)], n)


def encode(system: str, texts: list[str]) -> tuple[float, float, np.ndarray]:
    """Seconds, peak memory in MiB and vectors of ``texts``; runs in the process of ``system``."""
    if not _open:
        _open["encode"] = _opened(system)
        _open["encode"](texts[:16])
    began = time.perf_counter()
    vectors = _open["encode"](texts)
    spent = time.perf_counter() - began
    return spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, vectors


def _opened(system: str) -> Any:
    import torch

    torch.set_num_threads(THREADS)
    folder = path_of(get(MODEL), settings().cache)
    if system == "sentence-transformers":
        from sentence_transformers import SentenceTransformer

        theirs = SentenceTransformer(str(folder), device="cpu")
        return lambda texts: theirs.encode(texts, normalize_embeddings=True)
    from pipeline_tasks.retrieval.open_encoder import load_encoder

    precision = "int8" if system == "onnx int8" else "float32"
    return load_encoder(get(MODEL), settings().cache, THREADS, "cpu", precision).encode


def peak_gflops() -> float:
    """What a plain float32 matrix product reaches here with the same threads."""
    import torch

    torch.set_num_threads(THREADS)
    a, b = torch.rand(2048, 1536), torch.rand(1536, 1536)
    torch.mm(a, b)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        torch.mm(a, b)
        times.append(time.perf_counter() - began)
    return 2 * 2048 * 1536 * 1536 / min(times) / 1e9


def work_gflop(lengths: list[int], layers: int = 6, width: int = 384, inner: int = 1536) -> float:
    """Multiplications and additions of one pass over texts of these lengths, padding not counted."""
    per_token = 2 * layers * (4 * width * width + 2 * width * inner)
    return sum(length * (per_token + 4 * layers * length * width) for length in lengths) / 1e9


def measure_cpu(sizes: tuple[int, ...], console: Console) -> tuple[dict[str, float], dict[str, float]]:
    """Print the table and give the figures of the largest size, and how far its turns are apart."""
    context = get_context("spawn")
    pools = {system: ProcessPoolExecutor(1, context) for system in SYSTEMS}
    table = Table("texts", "system", "seconds", "texts/s", "ratio", "least cosine", "peak MiB", "of peak FLOP/s")
    tokenizer, peak = load_tokenizer(MODEL), pools["torch"].submit(peak_gflops).result()
    found: dict[str, float] = {}
    for n in sizes:
        texts = sample_texts(n)
        work = work_gflop([min(256, len(tokenizer.encode(text).ids)) for text in texts])
        runs = turns(SYSTEMS, lambda system, texts=texts: pools[system].submit(encode, system, texts).result())
        exact = runs["sentence-transformers"][0][2]
        for system in SYSTEMS:
            spent = statistics.median(run[0] for run in runs[system])
            pairs = zip(runs["sentence-transformers"], runs[system], strict=True)
            ratio = statistics.median(theirs[0] / ours[0] for theirs, ours in pairs)
            cosine = float((exact * runs[system][0][2]).sum(axis=1).min())
            share = work / spent / peak
            figures = (
                f"{spent:.2f}",
                f"{n / spent:.1f}",
                f"{ratio:.2f}",
                f"{cosine:.4f}",
                f"{runs[system][-1][1]:.0f}",
            )
            table.add_row(str(n), system, *figures, f"{share:.0%}")
            found |= {f"ratio {system}": ratio, f"cosine {system}": cosine}
    for pool in pools.values():
        pool.shutdown()
    console.print(table)
    console.print(f"matrix product of float32 on {THREADS} threads: {peak:.0f} GFLOP/s")
    spreads = {system: spread(run[0] for run in runs[system]) for system in SYSTEMS}
    ratios = {
        "ratio_torch": round(found["ratio torch"], 2),
        "ratio_onnx_int8": round(found["ratio onnx int8"], 2),
        "cosine_torch": round(found["cosine torch"], 4),
        "cosine_int8": round(found["cosine onnx int8"], 4),
    }
    return ratios, spreads


def main() -> None:
    """Run what was asked for; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small size")
    parser.add_argument("--device", default="", help="cuda, cuda:0,cuda:1, or cpu: the family's shapes there")
    parser.add_argument("--shapes", nargs="*", default=["33m", "109m", "335m", "596m"])
    asked = parser.parse_args()
    console = Console(width=120)
    if asked.device:
        finish(measure_shapes(asked.device, asked.shapes, asked.quick, console), {})
    else:
        finish(*measure_cpu(SIZES[:1] if asked.quick else SIZES, console))


if __name__ == "__main__":
    main()
