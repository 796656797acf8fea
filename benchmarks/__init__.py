"""How fast the parts are, as ratios beside the bare limit measured in the same run."""
