"""Chunking beside semchunk, chonkie and fixed windows: MB/s, memory, and boundaries against planted ones.

``python benchmarks/chunk_passages.py [--quick] [--data FOLDER]``: the last line is one JSON object. Ratios are of MB/s,
ours over theirs. Without the folder of extra data the texts are the sample corpus and made ones; it is said how much is
made. No text comes twice, for chunkers remember what they have counted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import re
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from given_texts import DATA, Documents, line_texts, pdf_texts, sample_texts
from measure import finish, spread, turns
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from pipeline_tasks.core.settings import settings
from pipeline_tasks.corpus.chunking.drift import token_table
from pipeline_tasks.corpus.chunking.passages import Chunker
from pipeline_tasks.models.fetch import fetch
from pipeline_tasks.models.registry import get

LIMIT, SCRAP = 255, 24
MODEL = "all-minilm-l6-v2"
SIZES_MB, JOINED, FEW = (0.25, 1.0, 4.0), 40, 3

Starts = Callable[[str], list[int]]
Planted = tuple[str, list[int]]


def planted(texts: dict[str, list[str]], n: int, seed: random.Random, separator: str) -> Iterator[Planted]:
    """Documents of 12 sections, neighbours from different documents, and where each section but the first begins."""
    pool = [(name, section) for name, sections in texts.items() for section in sections]
    for _ in range(n):
        chosen: list[tuple[str, str]] = []
        while len(chosen) < 12:
            drawn = seed.choice(pool)
            if not chosen or drawn[0] != chosen[-1][0]:
                chosen.append(drawn)
        sections = [section if separator != " " else " ".join(section.split()) for _, section in chosen]
        starts = np.cumsum([len(section) + len(separator) for section in sections])
        yield separator.join(sections), starts[:-1].tolist()


def segmentation_errors(text: str, truth: list[int], starts: list[int]) -> tuple[float, float]:
    """P_k (Beeferman et al. 1999) and WindowDiff (Pevzner and Hearst 2002) over words; k is half the mean section."""
    words = np.array([match.start() for match in re.finditer(r"\S+", text)])
    k = max(2, round(len(words) / (len(truth) + 1) / 2))
    true, ours = (np.searchsorted(np.array(cuts), words, "right") for cuts in (truth, starts))
    true, ours = true[k:] - true[:-k], ours[k:] - ours[:-k]
    return float(np.mean((true > 0) != (ours > 0))), float(np.mean(true != ours))


def chunkers(tokenizer: Tokenizer, table: np.ndarray) -> dict[str, Callable[[], Starts]]:
    """How to make each chunker anew: text -> where its passages begin."""
    import chonkie
    import semchunk

    def of_ours(table: np.ndarray | None) -> Starts:
        chunk = Chunker(tokenizer, LIMIT, SCRAP, table)
        return lambda text: [passage.start for passage in chunk(text)]

    def of_semchunk() -> Starts:
        # A counter of its own each time: semchunk keeps the counts of a counter that it has seen.
        chunk = semchunk.chunkerify(lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids), LIMIT)
        return lambda text: [start for start, _ in chunk(text, offsets=True)[1]]

    def of_chonkie() -> Starts:
        chunk = chonkie.RecursiveChunker(tokenizer=tokenizer, chunk_size=LIMIT)
        return lambda text: [found.start_index for found in chunk.chunk(text)]

    def tokens(text: str) -> list[int]:
        return [start for start, _ in tokenizer.encode(text, add_special_tokens=False).offsets[::LIMIT]]

    return {
        "structure": lambda: of_ours(None),
        "semantic": lambda: of_ours(table),
        "semchunk": of_semchunk,
        "chonkie recursive": of_chonkie,
        "fixed windows": lambda: tokens,
    }


def chonkie_semantic(folder: Path) -> Starts:
    """The SemanticChunker of chonkie with the same model."""
    import chonkie
    from chonkie.embeddings import SentenceTransformerEmbeddings
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    chunker = chonkie.SemanticChunker(SentenceTransformerEmbeddings(model), chunk_size=LIMIT)
    return lambda text: [found.start_index for found in chunker.chunk(text)]


def semantic_peer(
    folder: Path, make: Callable[[], Starts], cases: list[Planted], console: Console
) -> tuple[float, float]:
    """MB/s of chonkie's semantic chunker and of ours on the same few documents; print them with their P_k."""
    peer = chonkie_semantic(folder)
    size_mb = sum(len(text.encode()) for text, _ in cases) / 1e6
    speed = []
    for name, chunker in (("chonkie semantic", lambda: peer), ("ours", make)):
        texts = [text for text, _ in cases]
        speed.append(size_mb / seconds(chunker, texts, time.perf_counter))
        chunk = chunker()
        pk = np.mean([segmentation_errors(*case, chunk(case[0])[1:]) for case in cases], axis=0)
        console.print(f"{name} on {size_mb * 1000:.0f} kB: {speed[-1]:.4f} MB/s, P_k {pk[0]:.3f}")
    return speed[0], speed[1]


def seconds(make: Callable[[], Starts], texts: list[str], clock: Callable[[], float] = time.process_time) -> float:
    """Time of a new chunker for all texts; by default of the processor, which a busy machine disturbs less."""
    chunk = make()
    begun = clock()
    for text in texts:
        chunk(text)
    return clock() - begun


def peak_mib(make: Callable[[], Starts], texts: list[str]) -> float:
    """Memory that a process of its own needs for the texts, beyond what it had when it began."""
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def work() -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds(make, texts)
        queue.put((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)

    process = context.Process(target=work)
    process.start()
    process.join()
    return queue.get()


def over_limit(tokenizer: Tokenizer, chunk: Chunker, texts: list[str]) -> int:
    """Passages of too many tokens, and characters outside of any passage that are no white space."""
    wrong = 0
    for text in texts:
        at = 0
        for passage in chunk(text):
            inside = tokenizer.encode(text[passage.start : passage.end], add_special_tokens=False).ids
            wrong += len(inside) > LIMIT or len(inside) != passage.n_tokens or bool(text[at : passage.start].strip())
            at = passage.end
        wrong += bool(text[at:].strip())
    return wrong


def speeds(made: dict, batches: list[Documents], console: Console) -> tuple[dict[str, float], dict[str, float]]:
    """Print MB/s over each batch, best of three turns; give those over the last, and how far its turns are apart."""
    sizes = (f"{batch.size_mb:.3g} MB" for batch in batches)
    table = Table("chunker", *sizes, "spread", "MiB at the last", title="MB/s, one thread")
    found = [turns(made, lambda name, batch=batch: seconds(made[name], batch.texts)) for batch in batches]
    best = {name: [b.size_mb / min(took[name]) for b, took in zip(batches, found, strict=True)] for name in made}
    spreads = {name: spread(found[-1][name]) for name in made}
    for name, values in best.items():
        peak = peak_mib(made[name], batches[-1].texts)
        table.add_row(name, *(f"{value:.2f}" for value in values), f"{spreads[name]:.0%}", f"{peak:.0f}")
    console.print(table)
    return {name: values[-1] for name, values in best.items()}, spreads


def errors(made: dict, kinds: dict[str, list[Planted]], console: Console) -> dict[str, float]:
    """Print P_k and WindowDiff by kind of document; return the mean P_k."""
    table = Table("chunker", *kinds, "mean", "passages", title="P_k / WindowDiff, lower is better")
    means = {}
    for name, make in made.items():
        chunk, cells, n = make(), [], 0
        for cases in kinds.values():
            starts = [chunk(text) for text, _ in cases]
            n += sum(map(len, starts))
            pairs = [segmentation_errors(*case, found[1:]) for case, found in zip(cases, starts, strict=True)]
            cells.append(np.mean(pairs, axis=0))
        means[name] = np.mean(cells, axis=0)
        table.add_row(name, *(f"{pk:.3f} / {diff:.3f}" for pk, diff in [*cells, means[name]]), str(n))
    console.print(table)
    return {name: round(float(pk), 4) for name, (pk, _) in means.items()}


def main() -> None:
    """Print both tables, then the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest size alone")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with pdfs/disaster and ir, where there is one")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    seed, console = random.Random(options.seed), Console(width=120)
    folder = fetch(get(MODEL), settings().cache)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    table = token_table(folder)
    made = chunkers(tokenizer, table)
    sample, pdfs = sample_texts(), pdf_texts(options.data / "pdfs" / "disaster", seed)
    lines = line_texts(options.data / "ir")
    abstracts = {str(i): [text] for i, text in enumerate(lines.get("cranfield", [])) if 60 < len(text.split()) < 300}
    texts = sample | pdfs | lines
    sizes = SIZES_MB[:1] if options.quick else SIZES_MB
    console.print(f"{len(texts)} documents, seed {options.seed}, limit {LIMIT} tokens of {MODEL}")
    batches = [Documents.of(texts, size, options.seed) for size in sizes]
    if made_mb := batches[-1].made_mb:
        console.print(
            f"The texts at hand are too few: {made_mb:.2f} of {batches[-1].size_mb:.2f} MB are made of their words"
        )
    speed, spreads = speeds(made, batches, console)

    n = JOINED // 4 if options.quick else JOINED
    kinds = {
        f"{kind}, {name}": list(planted(pool, n, seed, separator))
        for kind, pool in (("sample", sample), ("PDFs", pdfs), ("abstracts", abstracts))
        if pool
        for name, separator in (("lines", "\n\n"), ("flat", " "))
    }
    theirs, ours = semantic_peer(folder, made["semantic"], next(iter(kinds.values()))[:FEW], console)
    pk = errors(made, kinds, console)
    whole = batches[-1].texts
    summary = {
        "ratio_to_semchunk": round(speed["structure"] / speed["semchunk"], 2),
        "ratio_to_chonkie_recursive": round(speed["structure"] / speed["chonkie recursive"], 2),
        "ratio_to_chonkie_semantic": round(ours / theirs, 1),
        "over_limit": sum(over_limit(tokenizer, Chunker(tokenizer, LIMIT, SCRAP, t), whole) for t in (None, table)),
        "pk": pk["semantic"],
        "pk_structure": pk["structure"],
        "pk_fixed": pk["fixed windows"],
        "pk_semchunk": pk["semchunk"],
        "structure_mb_per_s": round(speed["structure"], 2),
        "semantic_mb_per_s": round(speed["semantic"], 2),
        "tokenise_mb_per_s": round(speed["fixed windows"], 2),
        "made_mb": round(made_mb, 2),
    }
    finish(summary, spreads)


if __name__ == "__main__":
    main()
