"""Admission. Runs in every server node, for the HTTP routes and for the timetable.

Owns the way from a request's bytes to durable rows: authenticate, parse, judge, limit, number, commit.
Never answers before the commit is flushed, never stores part of a request, and never decides where or when a task runs.
"""
