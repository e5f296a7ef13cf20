"""Parameters of a mechanism from its motions and forces.

The method of Mejía Calderón, "Metodología para la identificación de parámetros dinámicos en sistemas mecánicos de
baja movilidad" (2016): equations of motion linear in the parameters (`regressors`) along a motion (`motions`),
without constraint forces (`elimination`); which parameters are identifiable (`base`, `symbolic_base`,
`extended`); their estimates (`least_squares`, `feasible`), motions that excite them (`excitation`), and reduced
models of those that contribute most (`relevance`).
"""
