"""From a backbone to a retriever: adaptation of decoders, contrastive pre-training, fine-tuning, distillation."""

STEPS = ("adapt_backbone", "pretrain", "finetune", "distill")
