"""From a backbone to a retriever: adaptation of decoders, pre-training, fine-tuning, distillation; and to a corpus."""

STEPS = ("adapt_backbone", "pretrain", "finetune", "distill", "adapt_to_corpus", "follow_instructions")
