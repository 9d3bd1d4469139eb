"""The factory of `make demo`: its reports, its arrivals in disarray, and the picture that it draws."""
