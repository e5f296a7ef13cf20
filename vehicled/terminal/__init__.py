"""What commands show in a terminal and write into files."""
