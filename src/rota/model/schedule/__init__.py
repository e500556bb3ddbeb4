"""Schedules: rules, policies, requests and their checks. Used by clients and server nodes, in their processes.

Owns what a schedule is and which rules are valid; `rota.timetable` computes instants and makes runs.
Never reads the clock or a row: callers pass `now` and the schedule.
"""
