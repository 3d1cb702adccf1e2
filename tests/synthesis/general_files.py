"""Small files in the layouts that the general-domain sets have on the hub; five pairs of each set."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

N = 5


def packed(value):
    """``value`` with bytes for its texts, as some writers of Parquet keep them."""
    if isinstance(value, dict):
        return {name: packed(each) for name, each in value.items()}
    if isinstance(value, list):
        return [packed(each) for each in value]
    return value.encode() if isinstance(value, str) else value


def parquet(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def lines(path: Path, rows: list) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)


def texts(name: str, number: int) -> tuple[str, str]:
    return f"what is {name} no{number}?", f"{name} is the number no{number}"


def columns(path: Path, name: str, first: str, second: str, **more: list) -> None:
    rows = [dict(zip((first, second), texts(name, i), strict=True)) for i in range(N)]
    parquet(path, [row | {key: values[i] for key, values in more.items()} for i, row in enumerate(rows)])


def beir(folder: Path, name: str, corpus: str, queries: str, qrels: str) -> None:
    """Queries and documents of which some are in no judgement, a judgement of 0, and a document without a title."""
    pairs = [texts(name, i) for i in range(N + 1)]
    lines(folder / queries, [{"_id": f"q{i}", "text": query} for i, (query, _) in enumerate(pairs)])
    documents = [
        {"_id": f"d{i}", "title": "A title" if i % 2 else "", "text": text} for i, (_, text) in enumerate(pairs)
    ]
    lines(folder / corpus, documents)
    judged = [{"query-id": f"q{i}", "corpus-id": f"d{i}", "score": int(i < N)} for i in range(N + 1)]
    if qrels.endswith(".tsv"):
        lines(folder / qrels, ["\t".join(map(str, row)) for row in (judged[0], *(row.values() for row in judged))])
    else:
        lines(folder / qrels, judged)


def plant(root: Path) -> None:
    """A folder for each of the 15 sets."""
    for name, first, second in (
        ("squad", "question", "answer"), ("paq", "query", "answer"), ("gooaq", "question", "answer"),
        ("eli5", "question", "answer"), ("quora_duplicates", "anchor", "positive"), ("altlex", "text", "simplified"),
        ("all_nli", "anchor", "positive"),
    ):  # fmt: skip
        columns(root / name / "pair" / "train-00000-of-00001.parquet", name, first, second)
    columns(root / "squad" / "triplet" / "train-00000-of-00001.parquet", "no pair", "question", "answer")
    labels = {"premise": "p", "hypothesis": "h"}
    english = [{key: f"{text} of {i}" for key, text in labels.items()} | {"label": i % 2} for i in range(2 * N)]
    parquet(root / "xnli" / "en" / "train-00000-of-00001.parquet", english)
    parquet(root / "xnli" / "th" / "train-00000-of-00001.parquet", english)
    answered = [
        {"query": query, "query_id": i, "answers": [""]}
        | {"passages": {"is_selected": [0, int(i < N)], "passage_text": ["other", text], "url": ["", ""]}}
        for i in range(N + 1)
        for query, text in [texts("msmarco", i)]
    ]
    parquet(root / "msmarco" / "v2.1" / "train-00000-of-00007.parquet", answered)
    parquet(root / "msmarco" / "v1.1" / "train-00000-of-00001.parquet", answered)
    beir(root / "nfcorpus", "nfcorpus", "corpus.jsonl", "queries.jsonl", "qrels/train.jsonl")
    beir(root / "fever", "fever", "corpus.jsonl", "queries.jsonl", "qrels/train.jsonl")
    beir(root / "quora", "quora", "corpus.jsonl", "queries.jsonl", "qrels/test.tsv")
    beir(root / "hotpotqa", "hotpotqa", "corpus.jsonl.gz", "queries.jsonl.gz", "qrels/train.tsv")
    signal = [
        {"_id": str(i), "title": "", "text": text, "query": q} for i in range(N) for q, text in [texts("news", i)]
    ]
    lines(root / "signal1m" / "train.jsonl.gz", signal)
    documents = root / "msmarco_documents"
    lines(documents / "msmarco-doctrain-queries.tsv.gz", [f"{i}\t{texts('doc', i)[0]}" for i in range(N)])
    bodies = [f'D{i}\thttp://x\tA "title\t{texts("doc", i)[1]} {"x" * 200_000}' for i in range(N)]
    lines(documents / "msmarco-docs.tsv.gz", bodies)
    lines(documents / "msmarco-doctrain-qrels.tsv.gz", [f"{i} 0 D{i} 1" for i in range(N)])
