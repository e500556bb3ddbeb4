"""In the keeper, and in the agent where it prepares orders. Owns the arguments that isolate a task: bubblewrap,
seccomp, container engines. It never starts a task and never imports anything outside the standard library.
"""
