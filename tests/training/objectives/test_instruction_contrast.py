"""InF-IR's objectives against their formulas, term by term, and what they cost."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from pipeline_tasks.training.objective import Table
from pipeline_tasks.training.objectives import objective
from pipeline_tasks.training.objectives.instruction_contrast import TERMS

T = 0.2
SUBSETS = [terms for n in (1, 2, 3) for terms in combinations(TERMS, n)]


def batch(n: int, width: int = 6) -> tuple[torch.Tensor, torch.Tensor, Table]:
    """Rows i with passage p_i and instruction-queries iq_{j, k} of all n x n: the rows' own first, then j != k."""
    random = torch.Generator().manual_seed(n)
    pairs = [(i, i) for i in range(n)] + [(j, k) for j in range(n) for k in range(n) if j != k]
    queries, passages = (
        functional.normalize(torch.randn(rows, width, generator=random, dtype=torch.float64), dim=1)
        for rows in (len(pairs), n)
    )
    instructions = torch.tensor([[k == i != j for j, k in pairs] for i in range(n)])
    others = torch.tensor([[j == k != i for j, k in pairs] for i in range(n)])
    own = torch.eye(n, dtype=torch.bool)
    table = Table(torch.arange(n), torch.ones(n, n, dtype=torch.bool), own, torch.zeros(n, n), T, instructions, others)
    return queries, passages, table


def by_formula(form: str, terms: tuple[str, ...], queries: np.ndarray, passages: np.ndarray) -> float:
    """Eq. 8 to 21 of the paper, a sum at a time."""
    n = len(passages)
    places = [(i, i) for i in range(n)] + [(j, k) for j in range(n) for k in range(n) if j != k]
    iq = dict(zip(places, queries, strict=True))
    total = 0.0
    for i in range(n):
        matching = np.exp(passages[i] @ iq[i, i] / T)
        sums = {
            "P": sum(np.exp(passages[m] @ iq[i, i] / T) for m in range(n)),
            "I": sum(np.exp(passages[i] @ iq[j, i] / T) for j in range(n)),
            "IQ": sum(np.exp(passages[i] @ iq[k, k] / T) for k in range(n)),
        }
        parts = [sums[name] for name in terms] if form == "uni" else [sum(sums[name] for name in terms)]
        total -= sum(np.log(matching / part) for part in parts)
    return total / n


@pytest.mark.parametrize("form", ["uni", "multi"])
@pytest.mark.parametrize("terms", SUBSETS, ids="-".join)
def test_every_variant_is_its_equation(form, terms) -> None:
    queries, passages, table = batch(5)
    found = objective({"name": "instruction_contrast", "form": form, "terms": terms}).loss(queries, passages, table)
    assert found.item() == pytest.approx(by_formula(form, terms, queries.numpy(), passages.numpy()), rel=1e-12)


@pytest.mark.parametrize("form", ["uni", "multi"])
def test_a_term_in_which_a_row_has_no_negatives_costs_that_row_nothing(form) -> None:
    """Row 0 has no other instruction, as one without any, row 1 no other query, row 2 nothing at all."""
    queries, passages, table = batch(5)
    own = torch.eye(5, len(queries), dtype=torch.bool)
    table.other_instructions[[0, 2]] = own[[0, 2]]
    table.other_queries[[1, 2]] = own[[1, 2]]
    table.candidates[2] = own[2, :5]
    left = {0: ("P", "IQ"), 1: ("P", "I"), 2: (), 3: ("P", "I", "IQ"), 4: ("P", "I", "IQ")}

    def of_rows(terms: tuple[str, ...]) -> np.ndarray:
        """What each row would cost by these terms alone."""
        given, positives = queries.numpy() / T, passages.numpy()
        found = []
        for i in range(5):
            scores = {
                "P": (positives @ given[i])[table.candidates[i]],
                "I": (given @ positives[i])[table.other_instructions[i] | own[i]],
                "IQ": (given @ positives[i])[table.other_queries[i] | own[i]],
            }
            sums = [np.exp(scores[name]).sum() for name in terms]
            sums = sums if form == "uni" else [sum(sums)] * bool(sums)
            found.append(sum(np.log(one) - positives[i] @ given[i] for one in sums))
        return np.array(found)

    expected = np.mean([of_rows(terms)[row] for row, terms in left.items()])
    every = objective({"name": "instruction_contrast", "form": form, "terms": ["P", "I", "IQ"]})
    assert every.loss(queries, passages, table).item() == pytest.approx(expected, rel=1e-12)


def test_passages_alone_are_contrasted_as_info_nce_does() -> None:
    queries, passages, table = batch(4)
    alone = objective({"name": "instruction_contrast", "terms": ["P"]}).loss(queries, passages, table)
    assert alone.item() == pytest.approx(objective("info_nce").loss(queries[:4], passages, table).item(), rel=1e-12)


def test_in_a_wrapper_it_sees_the_prefixes_of_all_queries() -> None:
    queries, passages, table = batch(4)
    inner = {"name": "instruction_contrast", "terms": ["P", "I", "IQ"]}
    wrapped = objective({"name": "matryoshka", "dims": [6], "inner": inner})
    assert wrapped.needs_contrasts and wrapped.needs_batch
    assert wrapped.loss(queries, passages, table).item() == pytest.approx(
        objective(inner).loss(queries, passages, table).item()
    )


def test_beside_same_tower_negatives_its_own_contrasts_stay() -> None:
    queries, passages, table = batch(4)
    inner = {"name": "instruction_contrast", "form": "uni", "terms": ["P", "I", "IQ"]}
    found = objective({"name": "same_tower", "inner": inner}).loss(queries, passages, table)
    wider = objective("same_tower").loss(queries[:4], passages, table)
    terms = objective(inner | {"terms": ["I", "IQ"]}).loss(queries, passages, table)
    assert found.item() == pytest.approx((wider + terms).item(), rel=1e-12)


def test_a_rows_cost_grows_with_the_batch_as_a_line_does() -> None:
    """Marginal negatives: a batch twice as large takes twice the work for each row, not four or eight times."""

    def work_of_a_row(n: int) -> float:
        queries, passages, table = batch(n)
        own = slice(0, 2 * n)
        table = replace(
            table, other_instructions=table.other_instructions[:, own], other_queries=table.other_queries[:, own]
        )
        with FlopCounterMode(display=False) as counter:
            objective({"name": "instruction_contrast", "terms": ["P", "I", "IQ"]}).loss(queries[own], passages, table)
        return counter.get_total_flops() / n

    assert work_of_a_row(16) == 2 * work_of_a_row(8) > 0
