"""Expression atoms, their derivatives, and machine code from them. Independent of mechanics."""
