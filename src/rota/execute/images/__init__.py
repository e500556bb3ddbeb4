"""Container images: which registries may be asked, how many pulls run at once, and where their connections go. In the
agent's process.
"""
