"""`vehicled ntrip`: source tables of casters of both protocol versions, also with malformed rows."""

from __future__ import annotations

import json
import math

import pytest
from caster import TestCaster

from drivers import source_table
from drivers.source_table import parse_table
from vehicled.cli import main

ROWS = (
    "CAS;caster.example;2101;Example;Nobody;0;ESP;40.0;-3.0;http://example",
    "NET;Example;Nobody;B;N;http://example;http://example;x@example;none",
    "STR;FAR;Sydney;RTCM 3.2;1005(1),1077(1);2;GPS+GLO;Example;AUS;-33.87;151.21;0;0;base;none;N;N;4800;",
    "STR;NEAR;A Coruña;RTCM 3.3;1006(10),1077(1);2;GPS+GAL;Example;ESP;43.37;351.60;0;0;base;none;B;N;9600;",
    "STR;VRS;network;RTCM 3.2;1005(1);2;GPS;Example;ESP;0.00;0.00;1;1;net;none;D;Y;;misc;more;fields",
    "STR;SHORT;;",
    "STR;\x1b[2JEVIL;\x07;RTCM;x;2;GPS;n;c;north;nan;0;0;g;none;N;N;inf",
)
TABLE = ("\r\n".join(ROWS) + "\r\nENDSOURCETABLE\r\n").encode()
V1 = b"SOURCETABLE 200 OK\r\nServer: x\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(TABLE)
V2 = b"HTTP/1.1 200 OK\r\nContent-Type: gnss/sourcetable\r\n"


def lasting(*pieces):
    """Send the pieces and keep the connection open."""

    def handle(visit):
        for piece in pieces:
            visit.send(piece)
        visit.wait()

    return handle


def chunked(visit):
    visit.send(V2 + b"Transfer-Encoding: chunked\r\n\r\n")
    for at in range(0, len(TABLE), 100):
        visit.send_chunk(TABLE[at : at + 100])
    visit.send(b"0\r\n\r\n")
    visit.wait()


WAYS = {
    "v1": lasting(V1, TABLE),
    "v1 in two": lasting(V1 + TABLE[:-8], TABLE[-8:]),
    "v2": lasting(V2 + b"Content-Length: %d\r\n\r\n" % len(TABLE), TABLE),
    "v2 without length": lambda visit: visit.send(V2 + b"\r\n" + TABLE),
    "v2 chunked": chunked,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_table_is_read_over_every_protocol_version(way, capsys):
    with TestCaster(WAYS[way]) as caster:
        assert main(["ntrip", caster.address, "--json", *["--v1"] * way.startswith("v1")]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["caster"] == caster.address
    assert [m["mountpoint"] for m in shown["mountpoints"]] == ["FAR", "NEAR", "VRS", "\\x1b[2JEVIL"]
    assert (shown["skipped"], shown["complete"]) == (1, True)
    assert shown["mountpoints"][1] == {
        "mountpoint": "NEAR",
        "place": "A Coruña",
        "format": "RTCM 3.3",
        "details": "1006(10),1077(1)",
        "systems": "GPS+GAL",
        "network": "Example",
        "country": "ESP",
        "latitude": 43.37,
        "longitude": pytest.approx(-8.40),
        "needs_position": False,
        "authentication": "basic",
        "fee": False,
        "bit_rate": 9600.0,
        "distance": None,
    }
    vrs, evil = shown["mountpoints"][2:]
    assert (vrs["needs_position"], vrs["authentication"], vrs["fee"]) == (True, "digest", True)
    assert vrs["latitude"] is vrs["longitude"] is vrs["bit_rate"] is None
    assert evil["latitude"] is evil["bit_rate"] is None
    assert caster.requests[0].startswith(b"GET / HTTP/1.")


def test_the_nearest_mountpoint_is_first_and_has_its_distance(capsys):
    with TestCaster(WAYS["v1"]) as caster:
        assert main(["ntrip", caster.address, "--json", "--near", "43.33,-8.41"]) == 0
    found = json.loads(capsys.readouterr().out)["mountpoints"]
    assert [m["mountpoint"] for m in found[:2]] == ["NEAR", "FAR"]
    north, east = math.radians(0.04) * 6.371e6, math.radians(0.01) * 6.371e6 * math.cos(math.radians(43.35))
    assert found[0]["distance"] == pytest.approx(math.hypot(north, east), rel=1e-3)
    # Great circle of the two towns, by the spherical law of cosines.
    a, b, across = math.radians(43.33), math.radians(-33.87), math.radians(151.21 + 8.41)
    angle = math.acos(math.sin(a) * math.sin(b) + math.cos(a) * math.cos(b) * math.cos(across))
    assert found[1]["distance"] == pytest.approx(6.371e6 * angle, rel=1e-3)
    assert found[2]["distance"] is None


def test_without_json_a_table_is_printed(capsys):
    with TestCaster(WAYS["v2"]) as caster:
        assert main(["ntrip", caster.address, "--near", "43.33,-8.41", "--mountpoint", "r"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].split() == ["mountpoint", "distance", "format", "systems", "position", "access", "place"]
    assert [line.split()[0] for line in lines[1:]] == ["NEAR", "FAR", "VRS"]
    assert "4.5 km" in lines[1]
    assert "yes" in lines[3]
    assert "1 lines cannot be read" in err
    assert "\x1b" not in out + err


def test_an_incomplete_table_is_shown_with_a_warning(capsys):
    with TestCaster(lambda visit: visit.send(V1 + TABLE[:400])) as caster:
        assert main(["ntrip", caster.address]) == 0
    out, err = capsys.readouterr()
    assert "FAR" in out
    assert "ends early" in err


def test_the_command_gives_up_on_a_caster_that_stalls_or_sends_too_much(monkeypatch, capsys):
    monkeypatch.setattr(source_table, "_WITHIN_S", 0.3)
    with TestCaster(lasting(V1)) as caster:
        assert main(["ntrip", caster.address]) == 1
    assert "no source table within" in capsys.readouterr().err
    monkeypatch.setattr(source_table, "_WITHIN_S", 20.0)
    monkeypatch.setattr(source_table, "_LARGEST", 1 << 20)

    def flood(visit):
        visit.send(V1)
        for _ in range(1000):
            visit.send(b"x" * 10_000)

    with TestCaster(flood) as caster:
        assert main(["ntrip", caster.address]) == 1
    assert capsys.readouterr().err.endswith("no source table within 20 s and 1 MiB\n")


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>", "got a web page"),
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", "401 Unauthorized"),
        (b"ICY 200 OK\r\n\r\n", "got a stream"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "got 'SSH-2.0-OpenSSH_9.6'"),
        (b"", "closed by the caster"),
    ],
)
def test_a_server_that_is_no_caster_is_reported_in_one_line(response, error, capsys):
    with TestCaster(lambda visit: visit.send(response)) as caster:
        assert main(["ntrip", caster.address]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert error in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["http://host/"], "HOST: expected HOST or HOST:PORT"),
        (["host", "--user", "me:secret"], "--user: expected a name without a colon"),
        (["host", "--near", "43"], "--near: expected LAT,LON"),
        (["host", "--near", "99,0"], "--near: expected LAT,LON"),
        (["host", "--ca-file", "x"], "--ca-file: expected tls"),
        (
            ["host", "--password-file", "x", "--password-variable", "y"],
            "--password-variable: expected either",
        ),
    ],
)
def test_mistakes_in_arguments_are_refused(arguments, error, capsys):
    assert main(["ntrip", *arguments]) == 2
    assert error in capsys.readouterr().err


def test_a_row_after_arbitrary_bytes_is_read():
    assert parse_table(bytes(range(256)) * 10 + b"\nSTR;A;b;c;d\n").mountpoints[0].mountpoint == "A"
