"""What a program imports on a slice; nothing here loads JAX before it is used."""
