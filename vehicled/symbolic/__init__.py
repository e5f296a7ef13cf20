"""Expression atoms, their derivatives, and machine code from them. Knows no mechanics."""
