"""Nodes prove who they are, and speak for themselves only."""
