"""The verb: one pure step from what is seen to what to do, and the loop that drives it."""
