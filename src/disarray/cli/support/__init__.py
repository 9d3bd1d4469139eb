"""What commands share: options, the project they work on, tables, instants and numbers as text, signals.

Must not know the commands.
"""
