"""Words, runs of words and sketches: by what texts are compared, wherever they are."""
