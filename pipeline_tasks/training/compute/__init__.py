"""How one optimiser step is computed: batches cut for the machine, what is scored, gradients, precision, AdamW."""
