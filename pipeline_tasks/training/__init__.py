"""From a backbone to a retriever: contrastive pre-training, fine-tuning on ever harder negatives, distillation."""

STEPS = ("pretrain", "finetune", "distill")
