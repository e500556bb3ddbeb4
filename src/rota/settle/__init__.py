"""Settling: how an attempt's end becomes the task's fate, and one batch that writes it."""
