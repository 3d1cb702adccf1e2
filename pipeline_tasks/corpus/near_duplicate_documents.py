"""Near-duplicate documents by MinHash-LSH; candidates are verified by exact Jaccard, so that precision is 1."""

from __future__ import annotations

import hashlib
import re

import numpy as np
from pydantic import Field

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.datasets import DOCUMENTS

_WORD = re.compile(r"\w+")


class NearDuplicateDocumentsParams(StepParams):
    """When two documents are the same."""

    threshold: float = Field(0.8, gt=0, le=1, description="Jaccard similarity of word shingles from which on")
    shingle_words: int = Field(3, ge=1, description="words in a shingle")
    n_permutations: int = Field(128, ge=16, description="MinHash permutations")


@step(
    reads={"texts": From(DOCUMENTS, "texts")},
    writes=DOCUMENTS,
    kind="reduce",
    dataset="documents",
    keeps=("texts",),
)
def near_duplicate_documents(inputs: Inputs, params: NearDuplicateDocumentsParams, run: Run) -> None:
    """Remove every document that is a near-duplicate of an earlier one; the earliest stays.

    Documents come in the order of their parts, so that a refresh never moves an old one. A reject
    ``near_duplicate_document`` names the document it duplicates and their Jaccard similarity. A document is compared
    with those that stayed: similarity is not transitive, and chains would merge what nobody would call alike.

    Source: DMRetriever, appendix A (3).
    """
    documents = inputs["texts"].table(["doc_id", "url", "text"])
    for index, original, jaccard in duplicates(documents["text"].to_pylist(), params, run):
        row, kept = documents.slice(index, 1).to_pylist()[0], documents.slice(original, 1).to_pylist()[0]
        detail = f"of {kept['doc_id']} {kept['url']}, jaccard {jaccard:.3f}: {row['url']}"
        run.reject(row["doc_id"], "near_duplicate_document", detail)


def duplicates(texts: list[str], params: NearDuplicateDocumentsParams, run: Run) -> list[tuple[int, int, float]]:
    """Documents that repeat an earlier one: (index, index of the earlier one most like it, exact Jaccard).

    Candidates are looked up at a lower threshold than asked, because LSH misses pairs near its own.
    """
    from datasketch import MinHash, MinHashLSH

    lsh = MinHashLSH(threshold=max(0.1, params.threshold - 0.2), num_perm=params.n_permutations)
    kept: dict[int, np.ndarray] = {}
    found = []
    with run.progress(len(texts), "documents") as meter:
        for index, text in enumerate(texts):
            shingles = shingle_hashes(text, params.shingle_words)
            sketch = MinHash(num_perm=params.n_permutations, hashfunc=_identity)
            sketch.update_batch(shingles.tolist())
            candidates = sorted(lsh.query(sketch))
            run.count("candidates", len(candidates))
            alike = max(((_jaccard(shingles, kept[c]), -c) for c in candidates), default=(0.0, 0))
            if alike[0] >= params.threshold:
                found.append((index, -alike[1], alike[0]))
            else:
                kept[index] = shingles
                lsh.insert(index, sketch)
            meter.advance()
    return found


def shingle_hashes(text: str, words: int) -> np.ndarray:
    """Sorted distinct 32-bit hashes of the runs of ``words`` lower-case words; a shorter text is one run.

    Shapes: [n] uint32.
    """
    tokens = _WORD.findall(text.lower())
    runs = {" ".join(tokens[i : i + words]) for i in range(max(1, len(tokens) - words + 1))}
    hashes = {int.from_bytes(hashlib.blake2b(run.encode(), digest_size=4).digest(), "little") for run in runs}
    return np.array(sorted(hashes), dtype=np.uint32)


def _identity(value: int) -> int:
    return value


def _jaccard(a: np.ndarray, b: np.ndarray) -> float:
    shared = np.intersect1d(a, b, assume_unique=True).size
    return shared / (a.size + b.size - shared)


def similarity(a: str, b: str, words: int) -> float:
    """Exact Jaccard similarity of two texts' shingle sets."""
    return _jaccard(shingle_hashes(a, words), shingle_hashes(b, words))
