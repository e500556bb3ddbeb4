"""`rota simulate`: the options and the figures of `rota.simulate`, in the user's process, without a server.

It owns how results are shown. It must never compute a figure itself.
"""
