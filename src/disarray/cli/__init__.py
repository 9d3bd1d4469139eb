"""The `disarray` command. Heavy imports happen inside commands, so that `--help` is instant."""
