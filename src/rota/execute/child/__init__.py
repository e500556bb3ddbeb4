"""In a warm child process, which runs functions of one tenant. Owns the call it is in: arguments, context, result,
usage. It never imports more than the standard library and msgspec before its first call, and the agent does not trust
it.
"""
