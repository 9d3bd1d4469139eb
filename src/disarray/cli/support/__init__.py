"""What commands share: the project they work on, tables, wording of numbers and instants, signals."""
