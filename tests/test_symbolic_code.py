"""Machine code and Python text of the same kernels, lanes and widths, and the cache of object code."""

import errno
import multiprocessing
import os
from collections.abc import Callable

import numpy as np
import pytest

from vehicled.symbolic import cache, machine, python
from vehicled.symbolic.compiler import compile_program, emit
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.program import KernelHandle, Layout, Program

RUN, ROTATE = KernelHandle("run"), KernelHandle("rotate")


def everything(lanes: int, width: int = 1) -> Program:
    """Every operation, plain and over lanes, with broadcasts from one to the other."""
    g = Graph()
    program = Program(g, lanes, width)
    a, b, c = program.array("plain", 3)
    u, v, w = program.array("lanes", 3, 1)
    swapped = g.lane_swap(u) if lanes > 1 else u

    def mix(x, y, z):
        return [
            x + y,
            x - z,
            x * y * z,
            x / (1.5 + y * y),
            -(x * z),
            g.sqrt(1.0 + x * x),
            g.sin(x),
            g.cos(y),
            g.tanh(z),
            g.atan(x),
            g.atan2(x, y),
            g.exp(z),
            g.abs(x - y),
            g.where_less(x, y, z, x * 2.0),
            g.clamp(x, -0.5, 0.5),
        ]

    single = program.lanes("lanes")
    plain = [*mix(a, b, c), g.lane_sum(u * v), g.lane_sum(g.sin(w) * a), g.lane_sum(-u) + b]
    plain += [single[0][0] * single[2][lanes - 1], g.lane_sum(a * g.lane_ones()), g.lane_sum(u) * plain[-1]]
    laned = [
        *mix(u, v, w),
        *mix(a, v, w),
        *mix(u, b, c),
        swapped * v,
        g.where_less(a, b, u, v),
        a * b,
        plain[-1] * u,
    ]
    outputs, lane_outputs = program.array("out", len(plain)), program.array("lane_out", len(laned), 1)
    run = program.kernel("run", [*zip(outputs, plain, strict=True), *zip(lane_outputs, laned, strict=True)])
    # Places that are read and written by one kernel: all reads come first.
    rotate = program.kernel("rotate", [(a, b), (b, c), (c, a), (u, v), (v, u)])
    assert (run, rotate) == (RUN, ROTATE)
    program.finish([])
    return program


def machine_code(program: Program) -> dict[KernelHandle, Callable[[int], None]]:
    return compile_program(program).functions.kernels


def randomised(layout: Layout, seed: int) -> np.ndarray:
    workspace = layout.allocate()
    workspace[:] = np.random.default_rng(seed).uniform(-1.5, 1.5, layout.size)
    return workspace


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_machine_code_agrees_with_python(lanes):
    program = everything(lanes)
    functions = machine_code(program)
    for seed in range(5):
        for handle, kernel in program.kernels.items():
            ours, theirs = randomised(program.layout, seed), randomised(program.layout, seed)
            functions[handle](ours.ctypes.data)
            python.function(kernel, program.layout)(theirs)
            assert ours == pytest.approx(theirs, rel=1e-13, abs=1e-14)


@pytest.mark.parametrize("width", [2, 4, 8, 24])
@pytest.mark.parametrize("lanes", [1, 4])
def test_instances_side_by_side_give_the_same_as_single_ones(lanes, width):
    wide, single = everything(lanes, width), everything(lanes)
    run_wide, run = machine_code(wide), machine_code(single)
    workspace = randomised(wide.layout, 7)
    instances = []
    for k in range(width):
        one = single.layout.allocate()
        for name in single.layout.places:
            single.layout.view(one, name)[...] = wide.layout.view(workspace, name)[..., k]
        instances.append(one)
    for kernel in (RUN, ROTATE):
        run_wide[kernel](workspace.ctypes.data)
        for k, one in enumerate(instances):
            run[kernel](one.ctypes.data)
            for array in single.layout.places:
                expected = single.layout.view(one, array)
                got = wide.layout.view(workspace, array)[..., k]
                assert got == pytest.approx(expected, rel=1e-13, abs=1e-14), array


def test_a_kernel_reads_all_values_before_it_writes():
    program = everything(4)
    w = randomised(program.layout, 3)
    plain, laned = (program.layout.view(w, n).copy() for n in ("plain", "lanes"))
    machine_code(program)[ROTATE](w.ctypes.data)
    assert program.layout.view(w, "plain") == pytest.approx(plain[[1, 2, 0]])
    assert program.layout.view(w, "lanes") == pytest.approx(laned[[1, 0, 2]])


def test_expressions_of_parameters_alone_are_computed_once():
    g = Graph()
    program = Program(g, 2)
    p, x, lane = g.symbol("p"), g.symbol("x"), g.symbol("lane", 1)
    program.store("p", [p])
    program.store("x", [x])
    program.store("lane", [lane])
    (out,) = program.array("out", 1)
    costly = g.exp(g.sin(p) * 3.0) / (1.0 + p * p)
    kernel = program.kernel("run", [(out, costly * x + g.lane_sum(lane * g.cos(p)))])
    program.finish([p])
    assert program.kernels[kernel].operations().keys() <= {"mul", "add", "lane_sum"}
    assert sum(program.kernels[program.prepare].operations().values()) >= 6
    run = machine_code(program)
    w = program.layout.allocate()
    program.layout.view(w, "p")[0], program.layout.view(w, "x")[0] = 0.7, 2.0
    program.layout.view(w, "lane")[0] = (1.0, 3.0)
    run[program.prepare](w.ctypes.data)
    run[kernel](w.ctypes.data)
    expected = np.exp(3 * np.sin(0.7)) / 1.49 * 2 + 4 * np.cos(0.7)
    assert program.layout.view(w, "out")[0] == pytest.approx(expected, rel=1e-14)


def test_python_text_is_readable():
    """Unused values are absent, values used once are written in place, all others have names."""
    g = Graph()
    program = Program(g)
    x, y, spare = g.symbol("x"), g.symbol("link1.rate"), g.symbol("spare")
    program.store("given", [x, spare, y])
    speed = x * y + 1.0
    speed.label("speed")
    (speed * spare).label("never asked for")
    out = program.array("out", 3)
    shared = g.sin(x) - (x - g.cos(y))
    values = [speed * speed, -(g.sin(x) * speed), shared / (shared * y)]
    kernel = program.kernel("run", zip(out, values, strict=True))
    program.finish([])
    assert python.source(program.kernels[kernel], program.layout).splitlines() == [
        "def run(m):",
        "    x = m.given[0]",
        "    link1_rate = m.given[2]",
        "    speed = 1.0 + x * link1_rate",
        "    sin_x = np.sin(x)",
        "    t1 = sin_x - (x - np.cos(link1_rate))",
        "    m.out[0] = speed * speed",
        "    m.out[1] = -(speed * sin_x)",
        "    m.out[2] = t1 / (link1_rate * t1)",
    ]


def test_python_names_are_valid_and_do_not_collide():
    g = Graph()
    program = Program(g)
    names = ["m", "np", "run", "lambda", "a.b", "a_b", "a b", "2nd", "2-nd", "·", "··", "2_nd", "t1"]
    symbols = [g.symbol(n) for n in names]
    program.store("given", symbols)
    total = g.zero
    for k, s in enumerate(symbols):
        total = total + s * s * float(k + 1)
    out = program.array("out", 2)
    kernel = program.kernel("run", [(out[0], total), (out[1], total * total)])
    program.finish([])
    w = randomised(program.layout, 4)
    values = program.layout.view(w, "given").copy()
    python.function(program.kernels[kernel], program.layout)(w)
    expected = (values**2) @ np.arange(1.0, 14.0)
    assert program.layout.view(w, "out") == pytest.approx([expected, expected**2], rel=1e-14)


def test_lanes_can_be_read_singly_and_as_a_vector():
    g = Graph()
    program = Program(g, 4)
    u = program.array("u", 2, 1)
    single = program.lanes("u")
    kernel = program.kernel(
        "run", [(program.array("out", 1)[0], g.lane_sum(u[1] * u[1]) * single[1][0] + single[0][3])]
    )
    program.finish([])
    ours, theirs = randomised(program.layout, 2), randomised(program.layout, 2)
    given = program.layout.view(ours, "u").copy()
    machine_code(program)[kernel](ours.ctypes.data)
    python.function(program.kernels[kernel], program.layout)(theirs)
    expected = given[1] @ given[1] * given[1, 0] + given[0, 3]
    for w in (ours, theirs):
        assert program.layout.view(w, "out")[0] == pytest.approx(expected, rel=1e-14)


def test_places_have_names():
    layout = Layout(lanes=2)
    layout.add("plain", 3)
    layout.add("laned", 2, 1)
    plain, laned = (layout.places[n].offset for n in ("plain", "laned"))
    assert [layout.name(plain + k) for k in (0, 2)] == ["plain[0]", "plain[2]"]
    assert [layout.name(laned + k) for k in (0, 1, 2)] == ["laned[0]", "laned[0, 1]", "laned[1]"]
    with pytest.raises(KeyError):
        layout.name(plain + 3)


def test_reading_a_symbol_without_a_place_is_refused():
    g = Graph()
    program = Program(g)
    (out,) = program.array("out", 1)
    program.kernel("run", [(out, g.symbol("lost"))])
    with pytest.raises(ValueError, match="lost"):
        program.finish([])


def test_storing_lanes_into_a_plain_number_is_refused():
    g = Graph()
    program = Program(g, 4)
    (out,) = program.array("out", 1)
    (lane,) = program.array("lane", 1, 1)
    program.kernel("run", [(out, lane)])
    with pytest.raises(ValueError, match="plain number"):
        program.finish([])


def test_invalid_code_is_refused():
    with pytest.raises(RuntimeError):
        machine.get_object("define void @f() { nonsense }")


# -- cache ---------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("CACHE_DIRECTORY", raising=False)
    monkeypatch.setenv("VEHICLED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def entry(folder):
    (path,) = folder.glob("*.o")
    return path


def build(calls: list) -> bytes:
    calls.append(1)
    return b"object code" * 1000


def test_an_entry_is_built_once(folder):
    calls: list = []
    for _ in range(3):
        assert cache.load_or_build("source", "target", lambda: build(calls)) == b"object code" * 1000
    assert len(calls) == 1
    cache.load_or_build("other source", "target", lambda: build(calls))
    cache.load_or_build("source", "other target", lambda: build(calls))
    assert len(calls) == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: b"",
        lambda d: d[: len(d) // 2],
        lambda d: d[:-1],
        lambda d: d[:500] + bytes([d[500] ^ 1]) + d[501:],
        lambda d: b"x" + d[1:],
        lambda d: d + b"more",
    ],
)
def test_a_damaged_entry_is_built_again_and_mended(folder, damage):
    calls: list = []
    cache.load_or_build("source", "target", lambda: build(calls))
    path = entry(folder)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.load_or_build("source", "target", lambda: build(calls)) == b"object code" * 1000
    assert len(calls) == 2
    assert cache.load_or_build("source", "target", lambda: build(calls)) == b"object code" * 1000
    assert len(calls) == 2


def test_an_entry_of_another_key_is_not_used(folder):
    cache.load_or_build("source", "target", lambda: b"code")
    path = entry(folder)
    assert cache.load_or_build("changed source", "target", lambda: b"other code") == b"other code"
    (changed,) = set(folder.glob("*.o")) - {path}
    changed.write_bytes(path.read_bytes())
    assert cache.load_or_build("changed source", "target", lambda: b"other code") == b"other code"
    assert cache.load_or_build("source", "target", lambda: b"never built") == b"code"


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path, monkeypatch, caplog):
    monkeypatch.delenv("CACHE_DIRECTORY", raising=False)
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("VEHICLED_CACHE", str(tmp_path / "file" / "cache"))
    assert cache.load_or_build("source", "target", lambda: b"code") == b"code"
    assert "cannot be kept" in caplog.text


@pytest.mark.parametrize("mode", [0o777, 0o770])
@pytest.mark.parametrize("place", ["folder", "entry"])
def test_code_that_others_could_have_written_is_not_run(folder, caplog, place, mode):
    cache.load_or_build("source", "target", lambda: b"foreign code")
    (entry,) = folder.iterdir()
    spoilt = folder if place == "folder" else entry
    spoilt.chmod(mode)
    assert cache.load_or_build("source", "target", lambda: b"own code") == b"own code"
    (warning,) = [r.getMessage() for r in caplog.records if "not taken from there" in r.getMessage()]
    assert warning.startswith(f"{spoilt}: ")
    assert f"mode {mode:04o}" in warning
    if place == "entry":  # the entry was replaced and is used again
        assert cache.load_or_build("source", "target", lambda: b"never built") == b"own code"
    else:  # entries in the folder were not changed
        folder.chmod(0o700)
        assert cache.load_or_build("source", "target", lambda: b"never built") == b"foreign code"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_code_of_another_user_is_not_run(folder):
    cache.load_or_build("source", "target", lambda: b"foreign code")
    (entry,) = folder.iterdir()
    os.chown(entry, 4711, -1)
    assert cache.load_or_build("source", "target", lambda: b"own code") == b"own code"
    os.chown(folder, 4711, -1)
    assert cache.load_or_build("source", "target", lambda: b"other code") == b"other code"


def test_only_the_owner_has_access_to_a_new_folder(folder):
    before = os.umask(0)
    try:
        cache.load_or_build("source", "target", lambda: b"code")
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(entry.stat().st_mode & 0o777 == 0o600 for entry in folder.iterdir())


def test_a_full_disk_leaves_no_files_behind(folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert cache.load_or_build("source", "target", lambda: b"code") == b"code"
    assert list(folder.iterdir()) == []


def test_code_of_each_optimisation_level_is_kept_separately(folder):
    program = everything(1)
    ir = emit(program, (), None)
    codes = [machine.get_object(ir, level) for level in (2, 0, 2, 0)]
    assert codes[0] != codes[1]
    assert codes[2:] == codes[:2]
    assert len(list(folder.glob("*.o"))) == 2


def _writer(folder: str, n: int, results) -> None:
    os.environ["VEHICLED_CACHE"] = folder
    os.environ.pop("CACHE_DIRECTORY", None)
    for k in range(30):
        payload = f"code {k % 3}".encode() * 5000
        results.put(cache.load_or_build(f"source {k % 3}", "target", lambda p=payload: p) == payload)


def test_concurrent_writers_never_see_half_an_entry(folder):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    writers = [context.Process(target=_writer, args=(str(folder), n, results)) for n in range(3)]
    for w in writers:
        w.start()
    assert all(results.get(timeout=30) for _ in range(90))
    for w in writers:
        w.join(30)
    assert len(list(folder.glob("*.o"))) == 3
    assert not list(folder.glob("*.tmp"))


def test_code_from_the_cache_computes_the_same(folder):
    program = everything(2)
    results = []
    for _ in range(2):
        w = randomised(program.layout, 1)
        machine_code(program)[RUN](w.ctypes.data)
        results.append(w.copy())
    assert len(list(folder.glob("*.o"))) == 1
    assert (results[0] == results[1]).all()
