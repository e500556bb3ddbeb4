"""Recurring work: the instants of schedules, and the ticker: each instant becomes one run or one recorded skip."""
