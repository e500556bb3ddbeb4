"""Admission: authenticate, parse, validate, limit, identify, and store durably before answering."""
