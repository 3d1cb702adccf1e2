"""Texts become numbers and tokens once, whatever blocks they come in; a killed or repeated call goes on."""

import tracemalloc
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training.compute.batches import plan_batches
from pipeline_tasks.training.data import tokens as tokens_module
from pipeline_tasks.training.data.examples import Examples, block
from pipeline_tasks.training.data.rows import Rows, tokenized

LENGTHS = {"max_query_length": 4, "max_passage_length": 6}


@pytest.fixture(scope="module")
def tokenizer(tiny_bert):
    return load(tiny_bert).tokens


def in_blocks(examples: Examples, n_rows: int) -> Examples:
    (whole,) = examples.blocks()
    return Examples(partial(iter, [whole.slice(at, n_rows) for at in range(0, len(whole), n_rows)]), examples.others)


def as_texts(rows: Rows) -> list[tuple]:
    """What the rows say, without the numbers that they say it by."""

    def passage(number: int) -> tuple[int, ...]:
        return tuple(rows.passages[number].tolist())

    return [
        (
            rows.queries[rows.query_of[row]].tolist(),
            int(rows.unpooled[rows.query_of[row]]),
            passage(rows.positive_of[row]),
            [passage(n) for n in rows.negatives_of[row]],
            rows.targets_of[row].tolist(),
            sorted(passage(n) for n in rows.answers[rows.query_of[row]]),
        )
        for row in range(len(rows))
    ]


def test_texts_are_cut_at_their_own_lengths(tokenizer, tmp_path) -> None:
    data = tokenized(Examples.of(["ta wb wc wd we"], ["ta wb wc wd we wf wg"]), tokenizer, tmp_path, **LENGTHS)
    assert [len(data.queries[0]), len(data.passages[0])] == [4, 6]


def test_no_rows_are_no_rows_however_few_blocks_they_come_in(tokenizer, tmp_path) -> None:
    nothing = [Examples(partial(iter, blocks), others=["wa"]) for blocks in ([], [block()], [block(), block()])]
    made = [tokenized(rows, tokenizer, tmp_path / str(n), **LENGTHS) for n, rows in enumerate(nothing)]
    assert [(len(rows), len(rows.passages), rows.key) for rows in made] == [(0, 1, made[0].key)] * 3


def test_a_text_is_tokenised_once_and_numbered_when_it_first_comes(tokenizer, tmp_path) -> None:
    examples = Examples.of(["ta", "tb", "ta"], ["wa", "wb", "wc"], [["wb"], ["wd", "wa"], []], others=["we", "wb"])
    data = tokenized(examples, tokenizer, tmp_path, **LENGTHS)
    assert data.query_of.tolist() == [0, 1, 0]
    assert data.positive_of.tolist() == [0, 1, 2]
    assert [negatives.tolist() for negatives in map(data.negatives_of.__getitem__, range(3))] == [[1], [3, 0], []]
    assert [answers.tolist() for answers in map(data.answers.__getitem__, range(2))] == [[0, 2], [1]]
    assert len(data.passages) == 5
    assert data.tokens_of.tolist() == [9, 12, 6]


@pytest.mark.parametrize("n_rows", [1, 5, 100])
def test_rows_are_the_same_in_whatever_blocks_they_come(many_rows, tokenizer, tmp_path, n_rows: int) -> None:
    whole = tokenized(many_rows, tokenizer, tmp_path / "whole", **LENGTHS)
    cut = tokenized(in_blocks(many_rows, n_rows), tokenizer, tmp_path / "cut", **LENGTHS)
    assert as_texts(whole) == as_texts(cut)
    assert len(whole.passages) == len(cut.passages) and len(whole.queries) == len(cut.queries)


def test_negatives_may_come_in_a_dictionary(rows, tokenizer, tmp_path) -> None:
    (given,) = rows.blocks()
    flat = given["negatives"].combine_chunks()
    shared = pa.ListArray.from_arrays(flat.offsets, flat.flatten().dictionary_encode())
    packed = Examples(partial(iter, [given.set_column(given.column_names.index("negatives"), "negatives", shared)]))
    plain = tokenized(rows, tokenizer, tmp_path / "plain", **LENGTHS)
    assert tokenized(packed, tokenizer, tmp_path / "packed", **LENGTHS).key == plain.key


def test_many_texts_lie_in_many_batches(many_rows, tokenizer, tmp_path, monkeypatch) -> None:
    one = tokenized(many_rows, tokenizer, tmp_path / "one", **LENGTHS)
    monkeypatch.setattr(tokens_module, "_TEXTS_PER_BATCH", 7)
    many = tokenized(many_rows, tokenizer, tmp_path / "many", **LENGTHS)
    assert as_texts(one) == as_texts(many)
    assert many.passages.lengths.tolist() == one.passages.lengths.tolist()


def test_prompts_that_are_not_pooled_are_counted_in_tokens(tokenizer, tmp_path) -> None:
    examples = Examples.of(["wa ta", "ta"], ["tb", "tb"], prompts=["wa ", ""])
    assert tokenized(examples, tokenizer, tmp_path, **LENGTHS).unpooled.tolist() == [2, 0]
    full = Examples.of(["wa wb wc ta", "ta"], ["tb", "tb"], prompts=["wa wb wc ", ""])
    with pytest.raises(
        InputError, match="max_query_length=4 leaves nothing of 1 queries behind an instruction of 4 tok"
    ):
        tokenized(full, tokenizer, tmp_path / "full", **LENGTHS)


def test_a_prompt_that_is_pooled_leaves_room_for_a_query(tokenizer, tmp_path) -> None:
    prompt = "wa wb "
    asked, poisoned = [prompt + "ta", prompt + "tb"], {"other_instructions": [[prompt + "tb"], []]}
    rows = Examples.of(asked, ["tc", "td"], prompts=[prompt] * 2, pools_prompts=True, **poisoned)
    room = tokenized(rows, tokenizer, tmp_path / "5", max_query_length=5, max_passage_length=6)
    assert room.unpooled.tolist() == [0, 0] and room.queries[0].tolist() != room.queries[1].tolist()
    with pytest.raises(InputError, match="max_query_length=4 leaves nothing of 2 queries behind an instruction of 3"):
        tokenized(rows, tokenizer, tmp_path / "4", **LENGTHS)


def test_texts_that_are_cut_are_told(tokenizer, tmp_path, caplog) -> None:
    caplog.set_level("INFO")
    examples = Examples.of(["ta", "wa wb wc ta"], ["tb", "tc"])
    tokenized(examples, tokenizer, tmp_path / "train", **LENGTHS)
    assert caplog.messages == [
        "train: of 2 texts that are a query, 1 reach max_query_length=4, the tokens after which they are cut"
    ]


def test_tokens_that_are_there_are_not_made_again(rows, tokenizer, tmp_path) -> None:
    made = as_texts(tokenized(rows, tokenizer, tmp_path, **LENGTHS))
    inode = (tmp_path / "passages.arrow").stat().st_ino
    (tmp_path / "queries.arrow").unlink()
    again = tokenized(rows, tokenizer, tmp_path, **LENGTHS)
    assert (tmp_path / "passages.arrow").stat().st_ino == inode and as_texts(again) == made
    (tmp_path / "passages.arrow").write_bytes(b"torn")
    assert as_texts(tokenized(rows, tokenizer, tmp_path, **LENGTHS)) == made


def test_memory_grows_by_a_few_numbers_a_row_and_not_by_its_texts(tokenizer, tmp_path) -> None:
    """By 87 bytes a row; it was 228 when pieces were kept, copied and sorted."""

    def peak(n_rows: int) -> int:
        starts = range(0, n_rows, 5_000)
        texts = [[(f"t{row} {'a' * 200}", f"w{row}") for row in range(start, start + 5_000)] for start in starts]
        examples = Examples(partial(iter, [block(*zip(*some, strict=True)) for some in texts]))
        tracemalloc.start()
        data = tokenized(examples, tokenizer, tmp_path / str(n_rows), **LENGTHS)
        plan_batches(len(data), 256, 0, 0, (data.query_of, data.positive_of))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert (peak(80_000) - peak(40_000)) / 40_000 < 150


@pytest.mark.parametrize("what", ["texts", "order", "lengths", "targets"])
def test_other_rows_have_another_key_and_tokens_of_their_own(rows, tokenizer, tmp_path, what: str) -> None:
    made = tokenized(rows, tokenizer, tmp_path, **LENGTHS)
    (given,) = rows.blocks()
    others = {
        "texts": Examples.of(given["query"], ["ta"] * len(given), given["negatives"]),
        "order": Examples(partial(iter, [given.take(np.arange(len(given))[::-1])])),
        "lengths": rows,
        "targets": Examples.of(
            given["query"],
            given["positive"],
            given["negatives"],
            targets=[[0.5] * (1 + len(negatives)) for negatives in given["negatives"].to_pylist()],
        ),
    }
    other = tokenized(others[what], tokenizer, tmp_path, **(LENGTHS | {"max_query_length": 3 + (what != "lengths")}))
    assert other.key != made.key
    assert as_texts(other) != as_texts(made)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (lambda: [block(["ta", "tb"], ["wa", "wb"], [["wc"], ["wd"]], targets=[[], [0.9]])], "1 teacher's .* 'tb' wi"),
        (lambda: [pa.table({"query": ["ta"]})], "without a column 'positive'"),
        (lambda: [block(["ta"], [None])], "a training row has no positive"),
        (lambda: [block(["ta", "tb"], ["wa"])], "not 2 of query, 1 of positive"),
    ],
)
def test_bad_rows_are_named(tokenizer, tmp_path, blocks, message: str) -> None:
    with pytest.raises(InputError, match=message):
        tokenized(Examples(blocks), tokenizer, tmp_path, **LENGTHS)


def test_rows_of_a_tuple_share_a_number_and_those_of_none_have_their_own(tokenizer, tmp_path) -> None:
    examples = Examples.of(["ta", "tb", "tc", "td", "te"], ["wa"] * 5, tuples=["x", "", "y", "", "x"])
    found = tokenized(in_blocks(examples, 2), tokenizer, tmp_path / "blocks", **LENGTHS).tuple_of.tolist()
    assert found[0] == found[4] and len(set(found)) == 4
    (given,) = examples.blocks()
    without = Examples.of(given["query"], given["positive"])
    assert len(set(tokenized(without, tokenizer, tmp_path / "without", **LENGTHS).tuple_of.tolist())) == 5


def test_what_a_contrast_leaves_out_is_told_of_each_or_of_none(tokenizer, tmp_path) -> None:
    others = {"other_instructions": [["wb ta"]], "other_queries": [["wc tb", "tc"]]}
    for prompts, left_out in (([["wb", "wc", ""]], [0, 2, 2, 0]), (None, [0, 0, 0, 0])):
        told = Examples.of(["ta"], ["wd"], **others, other_prompts=prompts)
        assert tokenized(told, tokenizer, tmp_path, **LENGTHS).unpooled.tolist() == left_out
    with pytest.raises(InputError, match="1 prompts of 3 other queries"):
        tokenized(Examples.of(["ta"], ["wd"], **others, other_prompts=[["wb"]]), tokenizer, tmp_path, **LENGTHS)
