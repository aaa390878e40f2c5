"""Judgement: facts in, decision out. No clock, no network, no logging."""
