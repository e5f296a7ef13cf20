"""How well a car is estimated that is not its model: cases, drives, estimators and what must hold."""
