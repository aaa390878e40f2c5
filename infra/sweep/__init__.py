"""Many trainings under a budget of chips: what is asked, what is known of the trials, what they hold."""
