"""A pool of questions comes back as it was graded."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline_tasks.ask.pool import pooled, read_pool, write_pool
from pipeline_tasks.ask.systems import open_system
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.domains.questions import Judgement, Question

BRIDGE = Question(
    query="which bridge do I take?", intent="qa", document="d",
    judgements=(Judgement(grade=2, evidence="Turn around, and take the bridge to the shelter."),),
)  # fmt: skip


@pytest.mark.parametrize("name", ["pool.jsonl", "pool.md"])
def test_a_pool_comes_back_as_it_was_graded(corpus, tmp_path, name):
    systems = [open_system("bm25", corpus), open_system("model/22m/finetune", corpus)]
    other = BRIDGE.model_copy(update={"query": "is the water ## fine?", "intent": "sts"})
    rows = pooled(corpus, systems, [BRIDGE, other], 3)
    assert [row.passage_id for row in rows] == [
        row.passage_id for row in sorted(rows, key=lambda r: (r.intent, r.passage_id))
    ]
    (known,) = [row for row in rows if row.grade is not None and row.intent == "qa"]
    assert (known.passage_id, known.quote) == ("p-flood", BRIDGE.judgements[0].evidence)
    trap = corpus.passage("p-trap")
    row = rows[0].model_copy(
        update={n: trap[n] for n in ("passage_id", "text", "title", "url")} | {"quote": "- grade: 2", "grade": 0}
    )
    write_pool([*rows, row], tmp_path / name)
    found = read_pool(corpus, tmp_path / name)
    graded = [(question.query, j.grade, j.evidence) for question, _ in found for j in question.judgements]
    assert graded == [(r.query, r.grade, r.quote) for r in [*rows, row] if r.grade is not None]
    with pytest.raises(InputError, match="not there yet"):
        write_pool(rows, tmp_path / name)


def test_a_pool_that_was_saved_with_a_byte_order_mark_is_the_same_pool(corpus, tmp_path):
    (row,) = pooled(corpus, [open_system("bm25", corpus)], [BRIDGE], 1)
    write_pool([row], tmp_path / "plain.jsonl")
    (tmp_path / "pool.jsonl").write_text((tmp_path / "plain.jsonl").read_text("utf-8"), "utf-8-sig")
    (tmp_path / "pool.md").write_text(
        f"## qa: {BRIDGE.query}\n\n- grade: 2 passage p-flood\n- quote: {row.quote}\n", "utf-8-sig"
    )
    assert read_pool(corpus, tmp_path / "pool.jsonl") == read_pool(corpus, tmp_path / "plain.jsonl") != []
    assert read_pool(corpus, tmp_path / "pool.md")[0][0].query == BRIDGE.query


def test_a_pool_that_was_spoilt_names_the_line(corpus, tmp_path):
    write_pool(pooled(corpus, [open_system("bm25", corpus)], [BRIDGE], 2), tmp_path / "pool.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "pool.jsonl").read_text().splitlines()]
    for change, said in (
        ({"grade": 2, "quote": "other words"}, "does not hold"),
        ({"grade": "good"}, "grade"),
        ({"grade": 5}, "grade 5"),
    ):
        spoilt = [rows[0] | {"grade": None}, rows[-1] | change]
        (tmp_path / "spoilt.jsonl").write_text("\n".join(map(json.dumps, spoilt)))
        with pytest.raises(InputError, match=rf"spoilt\.jsonl, line 2: .*{said}"):
            read_pool(corpus, tmp_path / "spoilt.jsonl")
    (tmp_path / "word.md").write_text("## qa: why?\n\n- grade: 2, yes passage p-flood\n- quote: Turn around\n")
    with pytest.raises(InputError, match=r"word\.md, line 4: grade"):
        read_pool(corpus, tmp_path / "word.md")
    (tmp_path / "pool.md").write_text("## qa: why?\n\n- grade: 2 passage p-flood\n- quote: nothing of it\n")
    with pytest.raises(InputError, match=r"pool\.md, line 4: .*does not hold"):
        read_pool(corpus, tmp_path / "pool.md")


@pytest.mark.parametrize("bullet", ["- grade", "* grade", "  + Grade"])
def test_an_editors_bullets_and_line_breaks_change_no_grade(corpus, tmp_path, bullet):
    quote = BRIDGE.judgements[0].evidence
    first, _, rest = quote.partition(" ")
    text = f"## qa: why?\n\n{bullet}: 2 passage p-flood\n{bullet[:-5]}quote: {first}\n  {rest}\n\n> Grade: a heading\n"
    (tmp_path / "pool.md").write_text(text)
    ((judgement,),) = [question.judgements for question, _ in read_pool(corpus, tmp_path / "pool.md")]
    assert (judgement.grade, judgement.evidence) == (2, quote)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- grade: 2 of p-flood\n- quote: Turn around\n", "line 3: .*is no `- grade"),
        ("- grade: 2 passage p-flood\n\n> Turn around\n", "line 3: the grade has no line"),
        ("- grade: 2 passage p-flood\n- grade: 1 passage p-trap\n- quote: a\n", "line 3: the grade has no line"),
        ("- quote: Turn around\n", "line 3: .*no quote behind it"),
    ],
)
def test_no_grade_is_passed_over(corpus, tmp_path, text, said):
    (tmp_path / "pool.md").write_text(f"## qa: why?\n\n{text}")
    with pytest.raises(InputError, match=rf"pool\.md, {said}"):
        read_pool(corpus, tmp_path / "pool.md")


def test_passages_of_a_set_of_others_which_have_no_address_are_pooled(corpus, tmp_path):
    rows = corpus.rows.set_column(
        corpus.rows.schema.get_field_index("url"), "url", pa.nulls(len(corpus.rows), pa.string())
    )
    corpus = replace(corpus, rows=rows)
    assert {row.url for row in pooled(corpus, [open_system("bm25", corpus)], [BRIDGE], 2)} == {""}
