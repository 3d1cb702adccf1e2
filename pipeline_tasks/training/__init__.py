"""From a backbone to a retriever: adaptation, pre-training, fine-tuning, distillation; to a corpus; means of models."""

STEPS = (
    "adapt_backbone",
    "pretrain",
    "finetune",
    "distill",
    "adapt_to_corpus",
    "follow_instructions",
    "average_models",
)
