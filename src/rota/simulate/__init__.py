"""Virtual time: the product's own core driven through recorded and made-up work, and the figures that come of it."""
