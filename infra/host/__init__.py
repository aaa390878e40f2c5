"""What starts on each host of a slice; standard library and cloudpickle only."""
