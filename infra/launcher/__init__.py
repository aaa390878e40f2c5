"""From a job to its end: a pure step, and one driver loop around it."""
