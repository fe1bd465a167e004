"""Figures as plain values in Plotly's terms, drawn from gathered facts."""
