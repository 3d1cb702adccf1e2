"""What a training does that has a sampler: units to choose among, targets, trials on a bench, batches as drawn."""
