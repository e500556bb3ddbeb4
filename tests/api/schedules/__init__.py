"""Schedules over HTTP: as single requests, and applied as a whole."""
