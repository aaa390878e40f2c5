"""What starts on each host of a slice. Standard library only, and cloudpickle for functions."""
