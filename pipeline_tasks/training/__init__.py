"""From a backbone to a retriever: adaptation, the three stages, distillation; to a corpus; means; ordered ones."""

STEPS = (
    "adapt_backbone",
    "pretrain",
    "finetune",
    "distill",
    "adapt_to_corpus",
    "follow_instructions",
    "average_models",
    "order_dimensions",
)
