select rank, name from lanes
