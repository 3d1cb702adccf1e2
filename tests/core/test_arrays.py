import numpy as np
import pyarrow as pa
import pytest

from pipeline_tasks.core.arrays import (
    in_order,
    inverse,
    list_array,
    lists_at,
    offsets,
    one_array,
    places_in,
    take_by_chunk,
)
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.vectors import lists, matrix

TEXTS = pa.array(["a", "b", "c"])


def test_one_piece_is_not_copied():
    column = pa.chunked_array([TEXTS])
    assert one_array(TEXTS) is TEXTS
    assert one_array(column).buffers()[2].address == TEXTS.buffers()[2].address


def test_several_pieces_and_none_are_joined():
    assert one_array(pa.chunked_array([TEXTS, TEXTS[:1]])).to_pylist() == ["a", "b", "c", "a"]
    assert one_array(pa.chunked_array([], pa.string())).to_pylist() == []


def test_a_part_of_a_piece_is_that_part():
    assert one_array(pa.chunked_array([TEXTS.slice(1)])).to_pylist() == ["b", "c"]


@pytest.mark.parametrize("places", [[], [2], [4, 0, 3, 0], [0, 1, 2, 3, 4]])
def test_values_are_taken_from_their_chunks_in_the_order_that_is_asked_for(places):
    column = pa.chunked_array([TEXTS, TEXTS[:0], TEXTS[:2]])
    assert (
        take_by_chunk(column, np.array(places, np.int64)).to_pylist()
        == column.take(pa.array(places, pa.int64())).to_pylist()
    )


def test_lists_are_cut_by_their_lengths_and_found_again_by_their_places():
    lists = list_array([2, 0, 1], TEXTS)
    assert lists.to_pylist() == [["a", "b"], [], ["c"]] and lists.type == pa.list_(pa.string())
    assert offsets([2, 0, 1]).tolist() == [0, 2, 2, 3] and offsets([]).tolist() == [0]
    places = places_in(lists.slice(1), TEXTS)
    assert places.tolist() == [[-1], [2]] and lists_at(places, TEXTS).equals(lists.slice(1))
    assert places_in(lists.slice(1, 1), TEXTS).tolist() == [[-1]] and places_in(lists[:0], TEXTS).shape == (0, 1)
    with pytest.raises(pa.ArrowInvalid):
        list_array([2**31], TEXTS)


def test_the_inverse_of_an_order_is_each_numbers_place():
    assert inverse(np.array([2, 0, 1])).tolist() == [1, 2, 0] and inverse(np.zeros(0, np.uint64)).dtype == np.int32


def test_rows_are_in_order_in_pieces(monkeypatch):
    monkeypatch.setattr("pipeline_tasks.core.arrays._PIECE", 2)
    pieces = [pa.table({"id": ["d", "b"], "of": [[4], [2]]}), pa.table({"id": ["a", "e", "c"], "of": [[1], [5], [3]]})]
    found = in_order(pa.concat_tables(pieces), "id")
    assert found.to_pydict() == {"id": [*"abcde"], "of": [[1], [2], [3], [4], [5]]}
    assert [len(chunk) for chunk in found["id"].chunks] == [2, 2, 1]
    assert in_order(pieces[0][:0], "id").schema == pieces[0].schema


def test_vectors_in_several_pieces_are_one_matrix():
    pieces = [lists(np.eye(2, dtype=np.float32)), lists(np.ones((1, 2), np.float32)), lists(np.eye(2)[:0])]
    assert matrix(pa.chunked_array(pieces)).tolist() == [[1, 0], [0, 1], [1, 1]]
    with pytest.raises(InputError, match="vectors of 2 to 3 numbers"):
        matrix(pa.chunked_array([pieces[0], lists(np.ones((1, 3), np.float32))]))


def test_a_column_of_vectors_in_one_piece_is_not_copied():
    column = pa.chunked_array([lists(matrix(pa.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])))])
    found = matrix(column.slice(1))
    assert found.tolist() == [[0.0, 1.0], [0.5, 0.5]]
    assert found.ctypes.data == column.chunk(0).values.buffers()[1].address + 2 * found.itemsize
