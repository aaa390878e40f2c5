"""What a user runs: flows, the call behind them, and the shell command."""
