"""The routes of a server node, one file for each noun.

A route authorises the caller, reads the request, calls one function of a stage, and answers with a structure of
`model/answers`; `@described` says beside it what it takes and answers. It must never hold SQL or decide what runs.
"""
