"""Recurring work: the instants of a schedule, and the ticker that turns each into exactly one run or one recorded skip."""
