"""In the keeper, and in the agent where it cleans up. Owns the calls to the kernel: control groups, mounts, /proc, work
folders. It never decides what to limit or to kill and never imports anything outside the standard library.
"""
