"""Where slices come from."""
