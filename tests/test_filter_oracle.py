"""The compiled filter on the car against the error-state filter on plain matrices."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from filter_rig import STEP_NS, H, new_filter, place, turn_left

from vehicled.filter.boundary import Observation
from vehicled.filter.covariance import MISSING
from vehicled.filter.error_state import (
    ErrorStateKalmanFilter,
    LinearObservation,
    Transition,
    calc_corrected,
    calc_update,
)
from vehicled.filter.settings import Kind, Suspension
from vehicled.filter.state_table import StateTable, make_table
from vehicled.filter.states import (
    DRIVE_FORCE,
    POSITION,
    UNMODELLED,
    VELOCITY,
    WHEEL_SLIP,
    InitialConditions,
    Process,
    calc_unknown_drive,
)
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import WHEELS
from vehicled.sources.gnss.fixes import Baseline
from vehicled.sources.gnss.gnss import Gnss
from vehicled.sources.gnss.model import GNSS
from vehicled.sources.imu.model import GYRO_BIAS
from vehicled.sources.sensors import Sensors
from vehicled.sources.speeds.vehicle_speed import SPEED_LATENCY
from vehicled.sources.speeds.wheels import WHEEL_LATENCY
from vehicled.vehicle.arrays import AHEAD, LEFT, POSE, YAW, YAW_RATE

BEGIN = 60 * STEP_NS
T = BEGIN + STEP_NS
TIMES = (T, T - STEP_NS // 3)
"""Of observations: now, and a little late."""
OBSERVATIONS = {
    "gnss.position": 3,
    "gnss.speed": 1,
    "gnss.course": 1,
    "imu.gyro": 3,
    "imu.accel": 3,
    "vehicle.speed": 1,
    **{f"wheel.{w}.{what}": 1 for w in WHEELS for what in ("angle", "speed")},
}
NOISE = {"gnss": 0.02, "imu.gyro": 0.003, "imu.accel": 0.06, "vehicle": 0.03, "wheel": 0.02}
TYPICAL = InitialConditions(speed=15.0, position_known=True, yaw_variance=0.03**2)


class Linear:
    """Model for the filter on plain matrices: errors that propagate by F and Q and are observed by rows."""

    def __init__(self, transition: Transition):
        self._transition = transition
        self.state = np.zeros(len(transition.matrix))

    def simulate(self, h: float) -> None:
        """The car is simulated by the compiled filter."""

    def calc_transition(self, h: float) -> Transition:
        return self._transition

    def observe(self, reading: LinearObservation) -> LinearObservation:
        """A reading that was linearised before any correction."""
        left = reading.innovation - reading.jacobian @ self.state
        return LinearObservation(left, reading.jacobian, reading.noise, reading.gate)

    def apply(self, correction: np.ndarray) -> None:
        self.state = self.state + correction


class Considering(ErrorStateKalmanFilter[LinearObservation]):
    """The filter on plain matrices, with a reduced gain of some states."""

    def __init__(self, transition: Transition, covariance: np.ndarray):
        super().__init__(Linear(transition), covariance)
        self.left_out = np.zeros_like(covariance)

    def update(self, reading: LinearObservation) -> None:
        """Joseph's form holds for any gain."""
        observation = self.model.observe(reading)
        update = calc_update(self.covariance, observation)
        update = replace(update, gain=update.gain - self.left_out @ update.gain)
        self.covariance = calc_corrected(self.covariance, update, observation.noise)
        self.model.apply(update.gain @ update.innovation)


def calc_left_out(f: VehicleFilter, kind: str) -> np.ndarray:
    """(n, n) matrix that, times the gain of the observation evaluated last, gives the gain that is left out.

    A course in a turn, a speed with an unknown acceleration, a position at speed and an IMU correct no latencies.
    If the latency of fixes is not corrected, the position is not corrected either by that latency times the velocity.
    With a known acceleration, wheels do not correct the force that causes their slip.
    """
    left_out, late = np.zeros(len(f.states)), f.states.places(GNSS.latency)[0]
    kept = f.car.view(f"{kind}.considered")
    carried = np.zeros(3)
    if kind.startswith("imu."):
        for group in f.states.groups:
            left_out[f.states[group]] = group.is_latency
        carried = kept[-3:]
    if kind == "gnss.position":
        left_out[late] = kept[0]
        carried = kept[1:]
    if kind in ("gnss.course", "gnss.speed"):
        for group in (GNSS.latency, GNSS.velocity_latency):
            left_out[f.states[group]] = kept[0]
        carried = kept[1:]
    if kind == "vehicle.speed":
        left_out[f.states[SPEED_LATENCY]] = kept.item()
    if kind.startswith("wheel."):
        *of_latency, of_force = kept
        for share in of_latency:  # of wheel speeds only
            left_out[f.states[WHEEL_LATENCY]] = share
            assert share == 1.0 - of_force
        left_out[f.states[DRIVE_FORCE]] = of_force
        if UNMODELLED in f.states:
            left_out[f.states.index(UNMODELLED, "ahead")] = of_force
    velocity = f.pose[AHEAD] * np.array([math.cos(f.pose[YAW]), math.sin(f.pose[YAW]), 0.0])
    fast = f.pose[AHEAD] / 15.0 - 1.0
    assert 0.2 < fast < 0.6
    share = left_out[late] if kind == "gnss.position" else left_out[late] * fast
    assert carried == pytest.approx(share * velocity, abs=0.5)
    matrix = np.diag(left_out)
    matrix[f.states[POSITION], late] = carried
    return matrix


def drive(kind: Kind, suspension: bool) -> VehicleFilter:
    """A filter in a bend at 20 m/s, at BEGIN, with all states estimated."""
    f = new_filter(kind, suspension=Suspension() if suspension else None)
    place(f, np.array([3.0, -2.0, 0.5]), 0.3, 20.0)
    turn_left(f, BEGIN // STEP_NS)
    f.open_states(lambda kind: True)
    return f


def table_of(f: VehicleFilter) -> StateTable:
    setup = Sensors().make_setup()
    return make_table(f.settings, setup.states)


def calc_noise(f: VehicleFilter, table: StateTable) -> np.ndarray:
    """(n, n) Q over one step, from the table: h times the density, and the noise of processes in h."""
    noise = table.densities()
    left = f.states.index(VELOCITY, "left")
    ahead = abs(f.pose[POSE.index("ahead")])
    speed = math.hypot(f.pose[AHEAD], f.pose[LEFT])
    if f.settings.kind != "errorEKF_FE":
        noise[left] = (math.sqrt(noise[left]) + f.settings.rate_noise.lateral_per_speed * ahead) ** 2
    noise[f.states[WHEEL_SLIP]] *= speed**2 / (speed**2 + 3.0**2)  # wheels that stand do not slip
    noise *= H
    for group, process in table.processes():
        if group is DRIVE_FORCE:
            process = calc_unknown_drive(f.settings)
        process = process or Process(1.0, 0.0)
        lost = 1.0 - math.exp(-2.0 * H / process.time)
        noise[f.states[group]] += lost * np.square(process.sigma)
    # The mean of the wheels' slips has a sixteenth of that variance, and all of it from 1 % of slip on.
    rates, rolling = f.car.view("now_wheels")[1], f.car.view("rolling").reshape(4, 2)
    along = rolling[:, 0] * f.pose[AHEAD]
    slips = rates - along - rolling[:, 1] * f.pose[YAW_RATE]
    of_mean = min(1 / 16 + np.sum(slips**2) / (np.sum(along**2) + 1e-3) / 0.01**2, 1.0)
    q, wheels = np.diag(noise), f.states[WHEEL_SLIP]
    mean = np.full((4, 4), 0.25)
    q[wheels, wheels] = noise[wheels] * (np.eye(4) - mean + of_mean * mean)
    return q


def draw_covariance(f: VehicleFilter, rng: np.random.Generator) -> np.ndarray:
    """(n, n) with correlations of all signs, as large as the states' own deviations."""
    n = len(f.states)
    root = rng.normal(size=(n, 2 * n)) / math.sqrt(2 * n)
    scale = np.sqrt(np.maximum(table_of(f).initial(TYPICAL), 1e-6)) * 10.0 ** rng.uniform(-0.5, 0.5, n)
    return scale[:, None] * (root @ root.T + 0.1 * np.eye(n)) * scale


class Stepped:
    """One step of a filter from the same state with any covariance."""

    def __init__(self, f: VehicleFilter):
        self.filter, self._saved = f, f.save()

    def predict(self, p: np.ndarray) -> np.ndarray:
        """(n, n) covariance after the step."""
        f = self.filter
        f.restore(self._saved)
        f.restart_history(BEGIN)
        f.errors.matrix = p
        f.predict(T, H)
        return f.covariance

    def calc_transition(self) -> np.ndarray:
        """(n, n) F, column by column: with one uncertain state, the covariance less noise is f fᵀ."""
        n = len(self.filter.states)
        f, noise = np.zeros((n, n)), self.predict(np.zeros((n, n)))
        for j in range(n):
            p = np.zeros((n, n))
            p[j, j] = 1.0
            column = (self.predict(p) - noise)[:, j]
            f[:, j] = column / math.sqrt(column[j])  # no state loses its sign in a step
        return f


FILTERS = [("errorEKF", False), ("errorEKF", True), ("errorEKF_EJ", False), ("errorEKF_FE", False)]


@pytest.fixture(scope="module", params=FILTERS, ids=lambda p: f"{p[0]}{' with suspensions' * p[1]}")
def compared(request) -> tuple[Stepped, Transition]:
    """The compiled filter, and the transition of its step with noise from the table of states."""
    f = drive(*request.param)
    stepped = Stepped(f)
    matrix = stepped.calc_transition()
    half = calc_noise(f, table_of(f)) / 2
    return stepped, Transition(matrix, matrix @ half @ matrix.T + half)


def assert_same(found: np.ndarray, expected: np.ndarray, p: np.ndarray) -> None:
    """Compare covariances (n, n) or corrections (n,) in units of the standard deviations of P."""
    sigma = np.sqrt(np.maximum(p.diagonal(), 1e-12))
    unit = sigma if found.ndim == 1 else np.outer(sigma, sigma)
    assert np.abs((found - expected) / unit).max() < 1e-9


def test_predicted_covariance_is_that_of_the_textbook_filter(compared):
    stepped, transition = compared
    rng = np.random.default_rng(1)
    for _ in range(3):
        p = draw_covariance(stepped.filter, rng)
        oracle = ErrorStateKalmanFilter(Linear(transition), p)
        oracle.predict(H)
        assert_same(stepped.predict(p), oracle.covariance, p)
        assert not stepped.filter.errors.x.any()


def test_noise_of_the_table_is_that_of_the_step(compared):
    stepped, transition = compared
    n = len(stepped.filter.states)
    noise = transition.noise
    assert_same(stepped.predict(np.zeros((n, n))), noise, noise + 1e-9 * np.eye(n))


def find_sigma(kind: str) -> float:
    return next(sigma for prefix, sigma in NOISE.items() if kind.startswith(prefix))


def choices(m: int) -> list[tuple[int, ...]]:
    """All possible sets of measured components."""
    return [c for k in range(1, m + 1) for c in combinations(range(m), k)]


@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_update_by_any_components(compared, kind):
    f, m = compared[0].filter, OBSERVATIONS[kind]
    rng = np.random.default_rng(2)
    for present in choices(m):
        p = draw_covariance(f, rng)
        compared[0].predict(p)
        run_updates(compared, rng, [(kind, present, t) for t in TIMES])


def test_updates_of_one_step_add_up(compared):
    """All kinds one after the other, with missing components and a gate that weighs some of them and rejects some."""
    f = compared[0].filter
    rng = np.random.default_rng(3)
    reasons: set[str] = set()
    for _ in range(8):
        compared[0].predict(draw_covariance(f, rng))
        given = []
        for kind, m in OBSERVATIONS.items():
            present = choices(m)[int(rng.integers(len(choices(m))))]
            given.append((kind, present, T))
        reasons |= run_updates(compared, rng, given, limits=(0.5, 2.0))
    assert reasons == {"fused", "weighted", "partly", "gate"}


def run_updates(compared, rng, given, limits=(math.inf, math.inf)) -> set[str]:
    """Update both filters with the same observations of the car's present state; returns the reasons.

    A component beyond the second limit is rejected. One beyond the first limit gets additional noise, so that its
    normalised innovation squared equals that limit.
    """
    f, transition = compared[0].filter, compared[1]
    oracle = Considering(transition, f.covariance)
    assert not f.errors.x.any()
    reasons = set()
    weigh, reject = limits
    for kind, present, t in given:
        chosen, before = list(present), oracle.covariance
        m, sigma = OBSERVATIONS[kind], find_sigma(kind)
        # Linearised without pending corrections: the filter on matrices subtracts these itself.
        gathered = f.errors.x.copy()
        f.errors.x[:] = 0.0
        f.evaluate(Observation(kind, t, [0.0] * m, [1.0] * m))
        predicted, rows = -f.errors.innovation[:m], f.errors.rows[:m][chosen].copy()
        noise = sigma**2 + f.errors.more_noise[:m][chosen]
        f.errors.x[:] = gathered
        s = rows @ before @ rows.T + np.diag(noise)
        difference = rows @ oracle.state + np.linalg.cholesky(s) @ rng.normal(size=len(chosen))
        value = np.where(np.isin(range(m), chosen), predicted, 0.0)
        value[chosen] += difference
        variance = [sigma**2 if k in chosen else MISSING for k in range(m)]
        # Evaluated again, as rows of the alignment of gyroscopes depend on the measured rates.
        f.errors.x[:] = 0.0
        f.evaluate(Observation(kind, t, value.tolist(), variance))
        difference, rows = f.errors.innovation[:m][chosen].copy(), f.errors.rows[:m][chosen].copy()
        f.errors.x[:] = gathered
        s = rows @ before @ rows.T + np.diag(noise)
        update = f.update(Observation(kind, t, value.tolist(), variance), limits)
        nu, diagonal = difference - rows @ oracle.state, s.diagonal()
        surprise = np.square(nu) / diagonal
        kept = surprise <= reject
        noise = noise + np.where(surprise > weigh, (surprise / weigh - 1.0) * diagonal, 0.0)
        oracle.left_out = calc_left_out(f, kind)
        if kept.any():
            oracle.update(LinearObservation(difference[kept], rows[kept], np.diag(noise[kept])))
        weighted = (surprise[kept] > weigh).any()
        reason = ("weighted" if weighted else "fused") if kept.all() else "partly" if kept.any() else "gate"
        assert update.reason == reason
        assert update.accepted == kept.any()
        assert np.flatnonzero(update.rejected).tolist() == [chosen[k] for k in np.flatnonzero(~kept)]
        assert update.nis == pytest.approx(nu @ np.linalg.solve(s, nu), rel=1e-8)
        assert np.array(update.innovation)[chosen] == pytest.approx(nu, rel=1e-7, abs=1e-9)
        assert np.array(update.variance)[chosen] == pytest.approx(diagonal, rel=1e-9)
        assert_same(f.covariance, oracle.covariance, before)
        assert_same(f.errors.x, oracle.state, before)
        reasons.add(update.reason)
    return reasons


def calc_course(f: VehicleFilter) -> float:
    pose = f.pose
    return float(pose[YAW] + math.atan2(pose[LEFT], pose[AHEAD]))


@pytest.mark.parametrize(
    ("rack", "at_least", "at_most"),
    [(0.0, 1.0, 1.0), (0.0022, 0.1, 0.9), (0.0032, 0.0, 0.2), (0.004, 0.1, 0.9), (0.008, 1.0, 1.0)],
)
def test_a_course_corrects_latencies_at_medium_yaw_rates_only(rack, at_least, at_most):
    """The whole correction is used at 0.1 rad/s, and none of it up to 0.05 rad/s and from 0.2 rad/s on."""
    f = new_filter()
    place(f, np.zeros(3), 0.0, 15.0)
    turn_left(f, 59, rack)
    before = calc_course(f)
    f.predict(60 * STEP_NS, H)
    turning = abs(calc_course(f) - before) / H
    assert f.evaluate(Observation("gnss.course", 60 * STEP_NS, [0.0], [1.0])) is not None
    share = f.car.view("gnss.course.considered")[0]
    slowly, fast = (min(max(turning / bound - 1.0, 0.0), 1.0) for bound in (0.05, 0.1))
    assert share == pytest.approx(max(1.0 - slowly, fast), abs=0.05)
    assert at_least <= share <= at_most


def test_gyroscopes_correct_their_biases_less_where_a_road_pitches_the_car():
    """This holds for roll and pitch rates only: roads hardly turn a car about the vertical."""
    corrections = []
    for rate in (0.0, 0.06):
        f = new_filter()
        place(f, np.zeros(3), 0.0, 15.0)
        turn_left(f, 2, 0.0)
        f.car.view("imu.rolling")[2] = rate**2
        f.update(Observation("imu.gyro", 2 * STEP_NS, [0.02, 0.02, 0.02], [1e-4] * 3), (1e9, 1e9))
        corrections.append(f.errors.x[f.states[GYRO_BIAS]])
    kept = 0.02**2 / (0.06**2 + 0.02**2)
    assert corrections[1] / corrections[0] == pytest.approx([kept, kept, 1.0], rel=1e-3)


def test_a_velocity_of_zero_at_standstill_keeps_all_values_finite():
    """At standstill the course has neither direction nor rate."""
    f = new_filter(sensors=Sensors(gnss=Gnss(heading=Baseline())))
    place(f, np.zeros(3), 0.3, 0.0)
    turn_left(f, 2, 0.0)
    f.open_states(lambda kind: True)
    for kind, m in (("gnss.velocity", 3), ("gnss.course", 1)):
        f.update(Observation(kind, 2 * STEP_NS, [0.0] * m, [0.01] * m), (1e9, 1e9))
        assert np.isfinite(f.car.view(f"{kind}.considered")).all()
        assert np.isfinite(f.covariance).all()
        assert np.isfinite(f.errors.x).all()


def test_a_position_is_not_corrected_without_the_latency_that_explains_its_error():
    """Gyroscopes correct states that correlate with a latency, but not the latency or the position error by it."""
    f = new_filter()
    place(f, np.zeros(3), 0.0, 30.0)
    turn_left(f, 2, 0.0)
    late, along, bias = (
        f.states.index(g, e) for g, e in ((GNSS.latency, ""), (POSITION, "x"), (GYRO_BIAS, "z"))
    )
    p = f.covariance
    for i in (late, along, bias):
        p[i, :] = p[:, i] = 0.0
    by_latency = np.zeros(len(p))
    by_latency[[late, along, bias]] = 0.02, 0.02 * 30.0, 0.01
    f.errors.matrix = p + np.outer(by_latency, by_latency) + 1e-8 * np.eye(len(p))

    def evaluate() -> tuple[float, float]:
        f.evaluate(Observation("gnss.position", 2 * STEP_NS, [0.0] * 3, [1e-4] * 3))
        return f.errors.innovation[0], f.errors.variance[0]

    innovation, variance = evaluate()
    f.update(Observation("imu.gyro", 2 * STEP_NS, [0.0, 0.0, 0.01], [1e-6] * 3), (1e9, 1e9))
    assert f.covariance[late, late] == pytest.approx(0.02**2, rel=1e-3)
    assert f.errors.x[late] == 0.0
    after = evaluate()
    assert after[0] == pytest.approx(innovation, abs=0.01)
    assert after[1] == pytest.approx(variance, rel=0.1)
