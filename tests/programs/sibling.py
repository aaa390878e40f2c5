"""Travels with the programs that import it."""

WORD = "came along"
