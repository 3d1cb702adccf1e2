"""From a backbone to a retriever: contrastive pre-training, then fine-tuning on harder and harder negatives."""

STEPS = ("pretrain", "finetune")
