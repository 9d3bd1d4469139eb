"""The `disarray` command: options in, text or JSON out.

`main` puts the commands together. Heavy imports happen inside commands, so that `--help` is instant.
Must not work anything out: what a command prints is asked of `queries`, and done by `control` and `worker`.
"""
