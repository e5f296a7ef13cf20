"""The reference vehicle in other multibody engines, each of which is optional (extra `bench`).

They model only the features of that vehicle: hinge axes along x, no toe or camber, one damping for bump and
rebound, stops that are never reached, and the published tyre law.
"""

PEERS = ("exudyn", "mujoco")
"""Names of the packages."""
