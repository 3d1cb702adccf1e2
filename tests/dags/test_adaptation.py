"""The first stage of a decoder, in the DAG that trains it."""

import pytest
from foundry_airflow.operators import SKIPS


@pytest.mark.parametrize(
    ("size", "causal", "adapts"),
    [("33m", None, False), ("596m", None, True), ("7.6b", True, False), ("4b", False, True)],
)
def test_a_decoder_is_adapted_first_unless_it_is_to_stay_causal(bag, size, causal, adapts):
    dag = bag.dags["train_retriever"]
    needed = dag.get_template_env().from_string(dag.get_task("adapt_backbone").only_if)
    rendered = needed.render(params={"size": size, "pretrain_causal": causal})
    assert (rendered not in SKIPS) is adapts
    assert "adapt_backbone" in dag.get_task("pretrain").upstream_task_ids
