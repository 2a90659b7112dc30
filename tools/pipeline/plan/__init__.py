"""Sizes of the arenas that a program needs on a core."""

from .plan import PlanError, make_plan

__all__ = ["PlanError", "make_plan"]
