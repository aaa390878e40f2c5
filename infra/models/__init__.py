"""Models that are trained again and again: candidates, the champion among them, and how it came to be one."""
