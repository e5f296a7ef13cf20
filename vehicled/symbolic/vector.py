"""Vectors of three atoms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vehicled.symbolic.graph import Atom, Number


class Vector:
    """A vector in three dimensions whose components are atoms."""

    __slots__ = ("x", "y", "z")

    def __init__(self, x: Atom, y: Atom, z: Atom) -> None:
        self.x, self.y, self.z = x, y, z

    @classmethod
    def of(cls, components: Sequence[Atom]) -> Vector:
        """A vector of three components. Raises ValueError for any other number of them."""
        x, y, z = components
        return cls(x, y, z)

    def __iter__(self) -> Iterator[Atom]:
        return iter((self.x, self.y, self.z))

    def __add__(self, other: Vector) -> Vector:
        return Vector(self.x + other.x, self.y + other.y, self.z + other.z)

    def __sub__(self, other: Vector) -> Vector:
        return Vector(self.x - other.x, self.y - other.y, self.z - other.z)

    def __neg__(self) -> Vector:
        return Vector(-self.x, -self.y, -self.z)

    def __mul__(self, factor: Atom | Number) -> Vector:
        return Vector(self.x * factor, self.y * factor, self.z * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Atom) -> Vector:
        return self * (1.0 / divisor)

    def dot(self, other: Vector) -> Atom:
        """Scalar product."""
        return self.x * other.x + self.y * other.y + self.z * other.z

    def cross(self, other: Vector) -> Vector:
        """Vector product, self × other."""
        return Vector(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )

    def norm(self) -> Atom:
        """Length; its derivative does not exist at zero."""
        return self.x.graph.sqrt(self.dot(self))

    def unit(self) -> Vector:
        """The vector over its length."""
        return self / self.norm()
