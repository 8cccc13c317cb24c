"""Policies that come with kailab, each after a published one: orders of jobs, scores of nodes, choices of victims."""
