"""The kernel of ChurnBench: what all stages agree on. It imports none of them."""
