"""Physical parameters of a mechanism from recorded motions and forces."""
