"""All pairs of passages above cosine 0.9: our exact screen beside FAISS range_search, torch and IVF, and a refresh.

``python benchmarks/near_duplicate_passages.py [--quick] [--sizes 25000 50000 100000]``: the last line is one JSON
object for the largest size. Two kinds of vectors: like those of an encoder (documents within topics, a spectrum that
falls off), and isotropic, which have no structure to use. A tenth of the rows are planted near-duplicates of others at
cosines from 0.8 to 1.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import tempfile
from pathlib import Path

import numpy as np
from measure import Measured, finish, measured, show

from pipeline_tasks.core.settings import settings
from pipeline_tasks.corpus.all_pairs import AllPairs, cosine_of
from pipeline_tasks.corpus.keep_earliest import settle

THRESHOLD = 0.9
DIMENSIONS = 384
SIZES, QUICK = (25_000, 50_000, 100_000), (5_000, 10_000, 20_000)
NEW = 1_000
BLOCK = 1_024


def encoder_like(n: int, seed: int) -> np.ndarray:
    """Vectors like all-MiniLM-L6-v2's of disaster manuals: docs/benchmarks/near_duplicate_passages.md compares them.

    Documents of 20 passages, more or less alike, within 12 topics, in a space whose spectrum falls off and whose mean
    is far from zero.
    """
    rng = np.random.default_rng(seed)
    rank = 1 + np.arange(DIMENSIONS)
    topic = rng.integers(0, 12, n // 20 + 1)
    document = rng.normal(size=(12, DIMENSIONS))[topic] + 0.7 * rng.normal(size=(len(topic), DIMENSIONS))
    spread = rng.lognormal(0, 0.25, (len(topic), 1))
    of = np.arange(n) // 20
    vectors = (document[of] + spread[of] * rng.normal(size=(n, DIMENSIONS))) * rank**-0.38
    return planted(rng, vectors + 0.24 * rng.normal(size=DIMENSIONS) * rank**-0.1)


def isotropic(n: int, seed: int) -> np.ndarray:
    """Directions without any structure."""
    rng = np.random.default_rng(seed)
    return planted(rng, rng.normal(size=(n, DIMENSIONS)))


def planted(rng: np.random.Generator, vectors: np.ndarray) -> np.ndarray:
    """Unit vectors, of which the last tenth becomes turned copies of others; then in random order."""
    n = len(vectors)
    vectors = _unit(vectors)
    originals = vectors[rng.integers(0, n - n // 10, n // 10)]
    cosine = rng.uniform(0.8, 1.0, (n // 10, 1))
    noise = _unit(rng.normal(size=originals.shape))
    noise = _unit(noise - (noise * originals).sum(axis=1, keepdims=True) * originals)
    vectors[n - n // 10 :] = cosine * originals + np.sqrt(1 - cosine**2) * noise
    return _unit(vectors)[rng.permutation(n)].astype(np.float32)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def ours(vectors: np.ndarray) -> np.ndarray:
    """All pairs, by the kernel of ``cluster_passages``."""
    rows = np.arange(len(vectors))
    i, j, _ = AllPairs(vectors, THRESHOLD).above(rows, rows)
    return np.stack([i, j], axis=1)


def representatives(vectors: np.ndarray) -> np.ndarray:
    """What ``cluster_passages`` makes of a block."""
    return settle(AllPairs(vectors, THRESHOLD), np.zeros(len(vectors), bool))[0]


def refreshed(given: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The same of the last thousand, where it is known which of all others stand."""
    vectors, standing = given
    new = np.arange(len(vectors) - NEW, len(vectors))
    alike = np.isin(new, AllPairs(vectors, THRESHOLD).above(new, standing)[0])
    return settle(AllPairs(vectors[new], THRESHOLD), alike)[0]


def known_but_new(path: str) -> tuple[np.ndarray, np.ndarray]:
    """Vectors, and which of all but the last thousand stand."""
    vectors = np.load(path)
    known = representatives(vectors[:-NEW])
    return vectors, np.flatnonzero(known == np.arange(len(known)))


def range_search(vectors: np.ndarray) -> np.ndarray:
    """All pairs and a few just below the threshold, by FAISS on a flat index."""
    import faiss

    return _range_search(faiss.IndexFlatIP(vectors.shape[1]), vectors, THRESHOLD - 1e-5)


def exact(pairs: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Those of ``pairs`` above the threshold in float64."""
    cosines = [cosine_of(vectors[some[:, 0]], vectors[some[:, 1]]) for some in np.array_split(pairs, 64)]
    return pairs[np.concatenate(cosines) > THRESHOLD]


def ivf(vectors: np.ndarray) -> np.ndarray:
    """Pairs within the four nearest cells of sqrt(n), by FAISS IVF."""
    import faiss

    quantizer = faiss.IndexFlatIP(vectors.shape[1])
    index = faiss.IndexIVFFlat(quantizer, vectors.shape[1], math.isqrt(len(vectors)), faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    index.nprobe = 4
    return _range_search(index, vectors, THRESHOLD)


def _range_search(index, vectors: np.ndarray, threshold: float) -> np.ndarray:  # noqa: ANN001
    import faiss

    faiss.omp_set_num_threads(settings().threads)
    index.add(vectors)
    found = []
    for first in range(0, len(vectors), BLOCK):
        limits, _, columns = index.range_search(vectors[first : first + BLOCK], threshold)
        rows = np.repeat(np.arange(first, first + len(limits) - 1), np.diff(limits.astype(np.int64)))
        found.append(np.stack([rows, columns], axis=1)[columns < rows])
    return np.concatenate(found)


def torch_blocks(vectors: np.ndarray) -> np.ndarray:
    """All pairs, by torch over the blocks of the lower triangle."""
    import torch

    torch.set_num_threads(settings().threads)
    whole = torch.from_numpy(vectors)
    found = []
    for first in range(0, len(whole), BLOCK):
        scores = whole[first : first + BLOCK] @ whole[: first + BLOCK].T
        pairs = torch.nonzero(scores > THRESHOLD).numpy() + [first, 0]
        found.append(pairs[pairs[:, 1] < pairs[:, 0]])
    return np.concatenate(found)


def gflops() -> float:
    """GFLOP/s of a float32 matrix product, the best of ten: the physical limit of comparing whole vectors."""
    a, b = np.ones((2048, DIMENSIONS), np.float32), np.ones((DIMENSIONS, 2048), np.float32)
    best = min(measured(_product, a, b).value for _ in range(2))
    return 2 * 2048 * 2048 * DIMENSIONS / best / 1e9


def _product(a: np.ndarray, b: np.ndarray) -> float:
    import time

    seconds = []
    for _ in range(10):
        started = time.perf_counter()
        a @ b
        seconds.append(time.perf_counter() - started)
    return min(seconds)


KINDS = {"encoder-like": encoder_like, "isotropic": isotropic}
PEERS = {"FAISS range_search, flat": range_search, "torch lower triangle": torch_blocks, "FAISS IVF, nprobe 4": ivf}
TORCH_UP_TO = 50_000


def peers_of(kind: str, n: int) -> list[str]:
    """All on vectors like an encoder's, torch up to some size; on others what the ratio needs."""
    names = list(PEERS) if kind == "encoder-like" else list(PEERS)[:1]
    return names if n <= TORCH_UP_TO else [name for name in names if PEERS[name] is not torch_blocks]


def with_faiss(path: str) -> np.ndarray:
    """The vectors, once FAISS is imported: not the time of the work."""
    importlib.import_module("faiss")
    return np.load(path)


def with_torch(path: str) -> np.ndarray:
    """The vectors, once torch is imported."""
    importlib.import_module("torch")
    return np.load(path)


def compare(kind: str, n: int, folder: Path, peers: list[str]) -> tuple[dict[str, Measured], np.ndarray]:
    """Every way over the same vectors, and the exact pairs."""
    path = folder / f"{kind}-{n}.npy"
    np.save(path, KINDS[kind](n, seed=n))
    ways = {"ours, all pairs": (ours, np.load), "ours, representatives": (representatives, np.load)}
    ways[f"ours, {NEW:,} new"] = (refreshed, known_but_new)
    ways |= {p: (PEERS[p], with_torch if PEERS[p] is torch_blocks else with_faiss) for p in peers}
    found = {}
    for name, (work, prepare) in ways.items():
        found[name] = measured(work, str(path), prepare=prepare)
        print(f"{kind}, {n:,}: {name}: {found[name].seconds:.2f} s", file=sys.stderr, flush=True)
    truth = exact(found[peers[0]].value, np.load(path, mmap_mode="r"))
    path.unlink()
    return found, truth


def recall(found: np.ndarray, truth: np.ndarray, n: int) -> float:
    """Share of the true pairs that were found."""
    return float(np.isin(truth[:, 0] * n + truth[:, 1], found[:, 0] * n + found[:, 1]).mean())


def main() -> None:
    """Print a table of all ways, kinds and sizes, the fitted time of a million, then the summary."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help=f"sizes {QUICK}")
    parser.add_argument("--sizes", type=int, nargs="+", help=f"numbers of passages, {SIZES} where not given")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="kinds of vectors")
    arguments = parser.parse_args()
    sizes = arguments.sizes or (QUICK if arguments.quick else SIZES)
    limit, lines, times, summary = gflops(), [], {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in arguments.kinds:
            for n in sizes:
                peers = peers_of(kind, n)
                found, truth = compare(kind, n, Path(folder), peers)
                theirs = found[peers[0]].seconds
                for name, one in found.items():
                    share = recall(one.value, truth, n) if one.value.ndim == 2 else ""
                    lines.append((kind, n, name, one.seconds, theirs / one.seconds, share, int(one.peak_mib)))
                    times.setdefault((kind, name), []).append((n, one.seconds))
                if kind == arguments.kinds[0]:
                    summary = {
                        "recall": lines[-len(found)][5],
                        "ratio_to_range_search": round(theirs / found["ours, all pairs"].seconds, 2),
                        "peak_mib": int(found["ours, representatives"].peak_mib),
                    }
    columns = ("vectors", "passages", "way", "seconds", "range_search / it", "recall", "peak MiB")
    show(f"Pairs above cosine {THRESHOLD}, {DIMENSIONS} dimensions", columns, lines)
    fits = [(kind, name, *million(points)) for (kind, name), points in times.items() if len(points) > 1]
    show("Extrapolated to 1,000,000 passages", ("vectors", "way", "seconds", "grows as n to the"), fits)
    whole = [(n, n * (n - 1) / 2 * 2 * DIMENSIONS / limit / 1e9) for n in (*sizes, 1_000_000)]
    show(f"Every pair once at {limit:.0f} GFLOP/s, this machine's matrix product", ("passages", "seconds"), whole)
    finish(summary)


def million(points: list[tuple[int, float]]) -> tuple[float, float]:
    """Seconds for a million passages by a line through the logarithms, and the exponent of growth."""
    exponent, constant = np.polyfit(*np.log(points).T, 1)
    return float(np.exp(constant + exponent * np.log(1e6))), float(exponent)


if __name__ == "__main__":
    main()
