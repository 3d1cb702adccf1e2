"""How a step is run: what there is to do, its body or its memo, and what it leaves for runs that come later."""
