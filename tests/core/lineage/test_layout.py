from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from pipeline_tasks.core.lineage.layout import layered

PAIRS = st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=50)


@given(PAIRS)
def test_edges_go_right_and_nothing_lies_on_anything(pairs):
    edges = [(f"n{min(a, b)}", f"n{max(a, b)}") for a, b in pairs if a != b]
    nodes = [f"n{i}" for i in range(15)]
    drawing = layered(nodes, edges)
    assert sorted(drawing.places) == sorted(nodes)
    assert {(a, b) for a, b, _ in drawing.edges} == set(edges)
    rows: dict[float, list[float]] = {}
    for layer, row in drawing.places.values():
        rows.setdefault(layer, []).append(row)
    for heights in map(sorted, rows.values()):
        assert all(b - a >= 0.99 for a, b in zip(heights, heights[1:], strict=False))
    for a, b, bends in drawing.edges:
        layers = [drawing.places[a][0], *(x for x, _ in bends), drawing.places[b][0]]
        assert layers == list(range(int(layers[0]), int(layers[-1]) + 1)), "one bend in every layer between"


def test_edges_of_one_node_share_their_way():
    drawing = layered("abcd", [("a", "b"), ("b", "c"), ("c", "d"), ("a", "c"), ("a", "d")])
    bends = {(a, b): points for a, b, points in drawing.edges}
    assert bends["a", "d"][:1] == bends["a", "c"]


def test_the_drawing_does_not_depend_on_the_order_of_what_is_drawn():
    edges = [("a", "c"), ("b", "c"), ("c", "d"), ("b", "e"), ("e", "d")]
    shuffled = random.Random(1).sample(edges, len(edges))
    assert layered("abcde", edges) == layered("edcba", shuffled)


def test_a_source_stands_next_to_its_first_reader():
    edges = [("urls", "documents"), ("documents", "model"), ("weights", "model")]
    drawing = layered(["urls", "documents", "model", "weights"], edges)
    assert drawing.places["weights"][0] == drawing.places["model"][0] - 1


def test_an_empty_graph_and_a_cycle_are_drawn_too():
    assert layered([], []).places == {}
    assert set(layered("ab", [("a", "b"), ("b", "a")]).places) == {"a", "b"}
