"""Layout of the records of an MCAP file that are written and read here byte by byte (mcap.dev/spec)."""

import struct

MAGIC = b"\x89MCAP0\r\n"
"""First and last bytes of a file."""

LIBRARY = "vehicled"
"""Name of this program in the head of every file that it writes."""

RECORD = struct.Struct("<BQ")
"""Head of every record: opcode, and length of what follows."""

MESSAGE = struct.Struct("<BQHIQQ")
"""Head of a message: opcode, length, channel, sequence, log time, publish time; its data follow."""

LARGEST = 64 << 20
"""Bytes of a record, or of what a chunk holds: writers use 1 to 4 MB."""

MESSAGE_FIELDS = MESSAGE.size - RECORD.size
"""Bytes between a message's length and its data, which that length includes."""
