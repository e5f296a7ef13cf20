"""How well a car that differs from its model is estimated: cases, drives, estimators and limits."""
