"""On which node of a Ray cluster a whole step left what it goes on from."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pipeline_tasks.core.engines.cluster import Node, nodes

log = logging.getLogger(__name__)

Left = Callable[[Any], float]
"""When work on an item was last gone on with on the machine that is asked, in seconds; 0: never."""

_ANSWER_S = 60.0
"""How long nodes are waited for; one that is too busy to answer has nothing."""


def node_that_has(ray: Any, left: Left, item: Any) -> Node | None:
    """The node where ``item`` was gone on with last; None where all say the same, as of a folder that they share."""
    there = [node for node in nodes(ray) if node.cpus >= 1]
    if len(there) < 2:
        return None
    ask = ray.remote(num_cpus=0, max_retries=0)(_ask)
    asked = {ask.options(scheduling_strategy=on_node(node, soft=False)).remote(left, item): node for node in there}
    answered, _ = ray.wait(list(asked), num_returns=len(asked), timeout=_ANSWER_S)
    left_at = {node.id: 0.0 for node in there}
    for ref in answered:
        try:
            left_at[asked[ref].id] = ray.get(ref)
        except ray.exceptions.RayError as error:
            log.warning("node %s does not say what it has of earlier work: %s", asked[ref].name, error)
    if len(set(left_at.values())) == 1:
        return None
    return max(there, key=lambda node: left_at[node.id])


def on_node(node: Node, *, soft: bool) -> Any:
    """Ray's way to say where; ``soft``: elsewhere once that node is gone."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node.id, soft)


def _ask(left: Left, item: Any) -> float:
    return left(item)
