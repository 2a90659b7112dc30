"""Functional models of Arm's Ethos-U NPUs."""
