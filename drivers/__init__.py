"""Bytes of a device to Measurements, one file per device family."""

import sys
from types import SimpleNamespace
from typing import Any

# python-can's module for MF4 logs, which nothing here uses, loads asammdf where that is installed, and with it pandas
# and more: two seconds at each start of any command.
_NOTHING: Any = SimpleNamespace(MF4Reader=None, MF4Writer=None)
sys.modules.setdefault("can.io.mf4", _NOTHING)
