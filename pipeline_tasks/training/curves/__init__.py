"""How a training went: its curve, what its sampler decided, and the files that TensorBoard reads."""
