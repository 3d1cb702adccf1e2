"""Files of which no row is a pair: the most frequent reason is told, with a row that it holds for and a remedy."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.synthesis.read_pairs import read_pairs
from tests.stores import go, put


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "query;positive\nwhy?;so\n", "no_query, 'a.csv, line 2' for one: .* there are query;positive: name"),
        ("a.tsv", "why?\tso\nhow?\tthus\n", r"no_query, .* there are why\?, so: .* first line of CSV and TSV names"),
        ("a.csv", "query,answer\nwhy?,so\n,so\nhow?,so\n", "no_positive, .*positive=positive, .* query, answer: name"),
        ("a.csv", "query,positive\nno\nnever\n,so\n", "bad_line, 'a.csv, line [23]' for one: .* as many fields"),
        (
            "a.csv",
            "query,passage_id\nwhy?,mine-7\n",
            r"passage, .*: passage_id 'mine-7' in a.csv, line 2, is no passage of passages@\w+;",
        ),
        ("a.csv", "query,positive,intent\nwhy?,so,rumour\n", "unknown_intent, .*: the domain has .*qa.*; name one"),
    ],
)
def test_where_no_row_is_a_pair_the_most_frequent_reason_is_told(tmp_path, name, text, message):
    store = LocalStore(tmp_path / "store")
    put(store, PASSAGES, [{"passage_id": "p1"}])
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=f"no row of .* is a pair; most are refused as .*{message}"):
        go(store, read_pairs, source=str(tmp_path / name))
