"""Which search finds the best config cheapest: recorded exhaustive sweeps, and every search replayed on them."""
