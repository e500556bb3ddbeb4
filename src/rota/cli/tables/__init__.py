"""Answers of the API as text for people, in the user's process: tables, lists of facts, drawings, progress.

It owns columns, colours and units. It must never connect or print: functions return text, `shell/output.py` writes it.
"""
