select rank, name, level, gated, promotes from lanes order by level, rank
