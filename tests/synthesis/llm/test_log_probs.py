"""Which tokens of an echoed prompt are those of its end, as servers of different kinds count them."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.synthesis.llm.log_probs import LogProbs, behind, kept_log_probs

ASKED = {"model": "m", "echo": True, "logprobs": 1}


def told(tokens: list[str], offsets: list[int]) -> LogProbs:
    log_probs = [None, *(-float(n) for n in range(1, len(tokens)))]
    return LogProbs.of_echo({"tokens": tokens, "log_probs": log_probs, "offsets": offsets, "top": {}})


@pytest.mark.parametrize(
    ("tokens", "offsets", "end", "last"),
    [
        (["Query", ":", " how", " so", " the"], [0, 5, 6, 10, 13], " how so", (-2, -3)),
        (["<s>", "Query", ":", " how", " so", " the"], [0, 3, 8, 9, 13, 16], " how so", (-3, -4)),
        (["Query", ":", " how", " so"], [0, 5, 6, 10], " how so", (-2, -3)),
        (["▁Query", ":", "▁how", "▁so", "▁the"], [0, 6, 7, 11, 14], " how so", (-2, -3)),
        (["Query", ":", "how", "so", "the"], [0, 5, 6, 9, 11], " how so", (-2, -3)),
        (["Query", ":", " ", "1", "2", "0"], [0, 5, 6, 7, 8, 9], " 12", (-2, -3, -4)),
        (["caf\ufffd", "\ufffd:", " caf", "\ufffd", "\ufffd", " the"], [0, 4, 5, 9, 9, 10], " café", (-2, -3, -4)),
        (["Query", ": how", " so", " the"], [0, 5, 10, 13], " how so", None),
        (["so", " so", " so", " so"], [0, 2, 5, 8], " so", (-2,)),
    ],
    ids=["plain", "special", "none_generated", "marked", "stripped", "digits", "bytes", "straddles", "alike"],
)
def test_the_end_of_a_prompt_is_found(tokens, offsets, end, last):
    found = behind(told(tokens, offsets), end)
    assert (None if found is None else tuple(p for _, p in found)) == last


def test_answers_that_wait_for_an_earlier_one_take_little_memory():
    choice = {"tokens": [f" w{n}" for n in range(500)], "log_probs": [None, *(-n / 7 for n in range(1, 500))]}
    raw = json.dumps(choice | {"offsets": [3 * n for n in range(500)], "top": {" a": -1.0}})
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    waiting = [LogProbs.of_echo(json.loads(raw)) for _ in range(50)]
    each = (tracemalloc.get_traced_memory()[0] - before) / len(waiting)
    tracemalloc.stop()
    assert each < 500 * 3 * 8 * 1.5, "three numbers a token; Python's own objects take four times that"
    assert behind(waiting[0], " w498") == [(" w498", -498 / 7)]


FULL = {"tokens": ["a", " b", " c"], "token_logprobs": [None, -1, -2], "text_offset": [0, 1, 3]}


@pytest.mark.parametrize(
    ("lacking", "what"),
    [
        ({"tokens": None}, r"a prompt \(echo\)"),
        ({"tokens": [3, 1, 4]}, r"a prompt \(echo\)"),
        ({"text_offset": [0, None, 3]}, "text_offset"),
        ({"token_logprobs": [None, None, -2]}, r"a prompt \(echo\)"),
        ({"token_logprobs": [None, "None", -2]}, r"a prompt \(echo\)"),
        ({"token_logprobs": [None, -1]}, r"a prompt \(echo\)"),
        ({"token_logprobs": [None, -1, float("nan")]}, r"a prompt \(echo\)"),
        ({"tokens": [" c"], "token_logprobs": [-2], "text_offset": [0]}, r"a prompt \(echo\)"),
        ({"text_offset": [-1, -1, -1]}, "text_offset"),
        ({"text_offset": None}, "text_offset"),
    ],
)
def test_what_an_endpoint_leaves_out_is_named_with_the_remedy(lacking, what):
    assert kept_log_probs({"logprobs": FULL}, ASKED)["offsets"] == [0, 1, 3]
    with pytest.raises(InputError, match=f"leaves out .*{what}.*grade_passages"):
        kept_log_probs({"logprobs": FULL | lacking}, ASKED)


def test_without_an_echo_the_likeliest_tokens_are_wanted():
    asked = {"model": "m", "logprobs": 5}
    one = {"tokens": ["x"], "token_logprobs": [-1], "text_offset": [7]}
    assert kept_log_probs({"logprobs": one | {"top_logprobs": [{"x": -1}]}}, asked)["top"] == {"x": -1}
    with pytest.raises(InputError, match="top_logprobs"):
        kept_log_probs({"logprobs": one | {"top_logprobs": None}}, asked)
