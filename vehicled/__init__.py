"""Real-time vehicle state estimation on a compiled multibody model.

The names in `__all__` are the public interface. Each is loaded from its module when it is first used, so that
`import vehicled` itself loads no other module of the package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vehicled.version import __version__

if TYPE_CHECKING:
    from vehicled.api.drives import Drive, estimate, load_configuration, read_log, score, simulate
    from vehicled.api.estimates import Estimates
    from vehicled.daemon.configuration import DaemonConfiguration
    from vehicled.errors import RunError, UsageError, VehicledError
    from vehicled.estimator import Estimator
    from vehicled.messages import Estimate, Innovation, Measurement
    from vehicled.multibody.formulations import make_stepper
    from vehicled.multibody.mechanism import Mechanism
    from vehicled.multibody.sensors import Accelerometer, Encoder, Gyroscope, Position, SensorSet
    from vehicled.studies.observers.factory import make_observer
    from vehicled.symbolic.function import CompiledFunction
    from vehicled.symbolic.graph import Atom, Graph


_HOMES = {
    "vehicled.api.drives": ("Drive", "estimate", "load_configuration", "read_log", "score", "simulate"),
    "vehicled.api.estimates": ("Estimates",),
    "vehicled.daemon.configuration": ("DaemonConfiguration",),
    "vehicled.errors": ("RunError", "UsageError", "VehicledError"),
    "vehicled.estimator": ("Estimator",),
    "vehicled.messages": ("Estimate", "Innovation", "Measurement"),
    "vehicled.multibody.formulations": ("make_stepper",),
    "vehicled.multibody.mechanism": ("Mechanism",),
    "vehicled.multibody.sensors": ("Accelerometer", "Encoder", "Gyroscope", "Position", "SensorSet"),
    "vehicled.studies.observers.factory": ("make_observer",),
    "vehicled.symbolic.function": ("CompiledFunction",),
    "vehicled.symbolic.graph": ("Atom", "Graph"),
}
"""Modules and their public names: the imports above, for the interpreter."""

__all__ = [
    "Accelerometer",
    "Atom",
    "CompiledFunction",
    "DaemonConfiguration",
    "Drive",
    "Encoder",
    "Estimate",
    "Estimates",
    "Estimator",
    "Graph",
    "Gyroscope",
    "Innovation",
    "Measurement",
    "Mechanism",
    "Position",
    "RunError",
    "SensorSet",
    "UsageError",
    "VehicledError",
    "__version__",
    "estimate",
    "load_configuration",
    "make_observer",
    "make_stepper",
    "read_log",
    "score",
    "simulate",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
