"""What all commands share, in the user's process: checks of options, the connection, output, errors and exit codes.

It owns the border to the terminal: nothing unescaped passes to it. It must never know a single command.
"""
