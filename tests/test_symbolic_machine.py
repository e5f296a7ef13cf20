"""Machine code that is loaded into a process with large mappings."""

import subprocess
import sys

LOAD_FAR = """
import ctypes
import mmap
from vehicled.symbolic import machine

HOLE, STEPS = 64 << 10, 30_000
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def reserve(size):
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
    return libc.mmap(None, size, 0, flags, -1, 0)


# The code is larger than one of the holes below, its constants, which are a section of their own, are smaller.
constants = [0.1 + k % 500 for k in range(STEPS)]
sums = [f"  %a{k + 1} = fadd double %a{k}, {c}\\n" for k, c in enumerate(constants)]
ir = "define double @f(double %a0) nounwind {\\n" + "".join(sums) + f"  ret double %a{STEPS}\\n}}\\n"
code = machine.compile_object(ir, 0)
# A mapping of 5 GB, and above it no room but small holes.
small = [reserve(HOLE) for _ in range(200)]
large = reserve(5 << 30)
while reserve(HOLE) > large:
    pass
for address in small[::2]:
    libc.munmap(address, HOLE)
function = machine.MachineCode(code).function("f", ctypes.c_double, ctypes.c_double)
expected = 1.0
for c in constants:
    expected += c
assert function(1.0) == expected, (function(1.0), expected)
"""


def test_code_reaches_its_constants_where_free_addresses_are_far_apart():
    # In a process of its own: if constants are out of reach, the compiler's library ends the process.
    done = subprocess.run([sys.executable, "-c", LOAD_FAR], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
