"""Sizes of the arenas that a program needs on a core."""

from .plan import Plan, PlanError, make_plan

__all__ = ["Plan", "PlanError", "make_plan"]
