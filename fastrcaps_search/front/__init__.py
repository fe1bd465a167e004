"""Arithmetic of fronts on plain arrays; everything here minimises."""
