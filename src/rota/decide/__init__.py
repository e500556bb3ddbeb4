"""The pure core: which task next, and where. Imports the model and nothing else; time is an argument."""
