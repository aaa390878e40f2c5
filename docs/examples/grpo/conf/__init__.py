"""A package, so that the files travel with the program that imports it."""
