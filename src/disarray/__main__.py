"""`python -m disarray` is the `disarray` command."""

from disarray.cli.main import main

main()
