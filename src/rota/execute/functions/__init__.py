"""In the agent. Owns calls of Python functions and the pool of warm child processes that run them. It never imports a
task's code, and it checks every reply of a sandboxed child before it uses it.
"""
