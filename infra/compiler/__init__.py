"""What Google's TPU compiler says of a program: whether its step fits a slice, what it takes, what crosses hosts."""
