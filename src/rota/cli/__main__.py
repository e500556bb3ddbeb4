"""`python -m rota.cli`: the command line without its script, for processes that `rota up` starts."""

from rota.cli.main import main

main()
