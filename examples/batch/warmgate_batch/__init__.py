"""Solves a batch of tasks with the models of a gateway's token_budget. See README.md."""
