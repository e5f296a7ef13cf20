"""Any number of particles: states of one mechanism in one array, advanced by one call of machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from vehicled.multibody.description import Description
from vehicled.multibody.model import MechanismError
from vehicled.particles.kernels import NOISE, STATE, WIDTH, build
from vehicled.symbolic.program import KernelHandle
from vehicled.symbolic.records import RecordCode, lay_out


class _Code:
    """Machine code for the particles of a mechanism."""

    def __init__(self, description: Description, noisy: Sequence[str]) -> None:
        program, model, self.sequences = build(description, noisy)
        self.coordinates = [c.name for c in model.system.coordinates]
        self.extent = model.extent
        self.parameters = np.array(list(model.values.values()))
        self.layout = program.layout
        self.record, self.rows = lay_out(self.layout, STATE, NOISE)
        self.machine = RecordCode(program, self.record)


@dataclass(frozen=True)
class _Key:
    """Key of code in the cache: a description, equal to any other of the same text."""

    description: Description = field(compare=False)
    text: str


# Shared by all swarms of a mechanism: building its expressions often takes longer than running a swarm.
@lru_cache(maxsize=8)
def _compile(key: _Key, noisy: tuple[str, ...]) -> _Code:
    return _Code(key.description, noisy)


class Swarm:
    """N particles, each a whole state of a mechanism, at one time `t`.

    Memory is allocated anew only if their number changes: blocks of eight particles, within a block
    coordinate by coordinate. Calls of machine code release the interpreter's lock.
    """

    def __init__(self, description: Description, count: int, noisy: Sequence[str] = ()) -> None:
        """`noisy` names the angles, distances and components of points that `advance` and `shift` can disturb.

        All particles are zero at first, which is not a valid state: call `set_states`. Raises MechanismError
        for a mechanism that has coordinates without mass, drives or inputs; ValueError on a count below one.
        """
        if count < 1:
            raise ValueError(f"{count} particles: expected at least one")
        self.description, self.count, self.noisy = description, count, tuple(noisy)
        code = _compile(_Key(description, repr(description)), self.noisy)
        self.coordinates = code.coordinates
        self.point_rows = [
            k for k, name in enumerate(self.coordinates) if name.rpartition(".")[0] in description.points
        ]
        """Rows of `get_q` that are lengths; the others are components of unit vectors."""
        self.angles, self.distances = list(description.angles), list(description.distances)
        lengths = {*self.distances, *(self.coordinates[k] for k in self.point_rows)}
        self.units = np.array([[code.extent if name in lengths else 1.0] for name in self.noisy])
        """(noisy, 1) units of disturbances: the mechanism's extent, m, or 1 rad."""
        self._sequences, self._rows, self._code = code.sequences, code.rows, code.machine
        layout, self._allocate = code.layout, code.record.allocate
        self._records, self._spare = self._allocate(count), self._allocate(count)
        self._workspace = layout.allocate()
        layout.view(self._workspace, "parameters")[:] = code.parameters[:, None]
        self._step = layout.view(self._workspace, "advance_step")
        self._time = layout.view(self._workspace, "time")
        self._code.prepare(self._workspace)
        if not np.all(np.isfinite(layout.view(self._workspace, "constants"))):
            raise MechanismError("particles: the mass matrix is singular, every coordinate needs mass")

    @property
    def t(self) -> float:
        """Time, s."""
        return float(self._time[0, 0])

    def _get(self, rows: slice) -> np.ndarray:
        """(rows, N) copy."""
        block = self._records[:, rows, :].transpose(1, 0, 2)
        return block.reshape(len(block), -1)[:, : self.count].copy()

    def _set(self, rows: slice, values: np.ndarray) -> None:
        """(rows, N); unused places in the last block are copies of the last particle."""
        blocks = len(self._records)
        filled = np.empty((values.shape[0], blocks * WIDTH))
        filled[:, : self.count] = values
        filled[:, self.count :] = values[:, -1:]
        self._records[:, rows, :] = filled.reshape(-1, blocks, WIDTH).transpose(1, 0, 2)

    def get_q(self) -> np.ndarray:
        """(n, N) coordinates, m, in the order of `coordinates`."""
        return self._get(self._rows["q"])

    def get_qd(self) -> np.ndarray:
        """(n, N) velocities, m/s."""
        return self._get(self._rows["qd"])

    def get_angles(self, name: str) -> np.ndarray:
        """(N,) an angle of the description, rad in (−π, π]. Raises ValueError for one that is not there."""
        k = self._rows["sides"].start + 2 * self.angles.index(name)
        sides = self._get(slice(k, k + 2))
        angle: np.ndarray = np.arctan2(sides[0], sides[1])
        return angle

    def get_coordinate(self, name: str) -> np.ndarray:
        """(N,) a distance of the description or a component of a point, m. Raises ValueError."""
        if name in self.distances:
            k = self._rows["distances"].start + self.distances.index(name)
        else:
            k = self.coordinates.index(name)
        values: np.ndarray = self._get(slice(k, k + 1))[0]
        return values

    def get(self, name: str) -> np.ndarray:
        """(N,) an angle in (−π, π] or any other coordinate, rad or m. Raises ValueError."""
        return self.get_angles(name) if name in self.angles else self.get_coordinate(name)

    def get_rates(self, name: str) -> np.ndarray:
        """(N,) rate of an angle or another coordinate, rad/s or m/s. Raises ValueError."""
        relative = [*self.angles, *self.distances]
        if name in relative:
            k = self._rows["rates"].start + relative.index(name)
        else:
            k = self._rows["qd"].start + self.coordinates.index(name)
        values: np.ndarray = self._get(slice(k, k + 1))[0]
        return values

    def set_states(self, q: np.ndarray, qd: np.ndarray, t: float = 0.0) -> None:
        """Set coordinates and velocities, (n, N) each, projected onto the constraints, and the time, s."""
        self._set(self._rows["q"], np.asarray(q, dtype=float))
        self._set(self._rows["qd"], np.asarray(qd, dtype=float))
        self._time[:] = t
        self._run(self._sequences.settle)

    def advance(self, h: float, moves: np.ndarray | None = None, kicks: np.ndarray | None = None) -> None:
        """Advance to t + h (s), then disturb by `moves` and `kicks`, (noisy, N) or None, as in `shift`."""
        self._step[:] = h
        if moves is None and kicks is None:
            self._run(self._sequences.advance)
        else:
            self._disturbances(moves, kicks)
            self._run(self._sequences.advance_noisily)
        self._time += h

    def shift(self, moves: np.ndarray | None, kicks: np.ndarray | None = None) -> None:
        """Change each noisy coordinate by `moves` and its rate by `kicks`, both (noisy, N) or None.

        The other coordinates follow the constraints; velocities are projected onto them.
        """
        self._disturbances(moves, kicks)
        self._run(self._sequences.shift)

    def _disturbances(self, moves: np.ndarray | None, kicks: np.ndarray | None) -> None:
        for name, amounts in zip(NOISE, (moves, kicks), strict=True):
            if amounts is None:
                self._records[:, self._rows[name], :] = 0.0
            else:
                self._set(self._rows[name], amounts)

    def select(self, indices: np.ndarray) -> None:
        """Set particle k to the former particle indices[k]; with indices (m,) there are m particles afterwards."""
        self.count = len(indices)
        enough = len(self._spare) == -(-self.count // WIDTH)
        target = self._spare if enough else self._allocate(self.count)
        chosen = np.empty(len(target) * WIDTH, dtype=np.int64)
        chosen[: self.count] = indices
        chosen[self.count :] = indices[-1]
        self._code.select(target, self._records, chosen)
        self._records, self._spare = target, self._records

    def _run(self, sequence: KernelHandle) -> None:
        self._code.run(sequence, self._workspace, self._records)
