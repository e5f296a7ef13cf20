"""python-can without asammdf, which it would import, and pandas with it, wherever that is installed.

That takes 60 MB and most of a second in a daemon that reads no MDF. Everything here imports `can` from this module.
"""

import sys

_HIDDEN = "asammdf"

if _HIDDEN in sys.modules:
    import can
else:
    sys.modules[_HIDDEN] = None  # type: ignore[assignment]  # so that its import fails, as if it were not installed
    try:
        import can
    finally:
        del sys.modules[_HIDDEN]

__all__ = ["can"]
