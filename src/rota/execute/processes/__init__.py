"""In the agent. Owns attempts of commands, scripts, files and containers: the order for the keeper, the output, the
files and the finish. It never forks: the keeper does.
"""
