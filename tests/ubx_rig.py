"""Messages and epochs of a u-blox receiver, made by pyubx2."""

from pyubx2 import GET, UBXMessage

from drivers.ubx import UbxDecoder, UbxOptions

MS = 1_000_000
S = 1_000 * MS
PVT = {
    **{"iTOW": 100_000, "year": 2026, "month": 11, "day": 22, "hour": 10, "min": 5, "second": 7},
    **{"validDate": 1, "validTime": 1, "fullyResolved": 1, "nano": 0, "fixType": 3, "gnssFixOk": 1},
    **{"lon": 8.5, "lat": 47.25, "height": 412_500, "hMSL": 365_000, "hAcc": 14, "vAcc": 21},
    **{
        "velN": 3000,
        "velE": -4000,
        "velD": 100,
        "gSpeed": 5000,
        "headMot": 306.86990,
        "sAcc": 50,
        "headAcc": 1.0,
    },
}


def decoder(**options):
    return UbxDecoder("gnss", UbxOptions(port="p", **{"latency": 0.0} | options))


def nav(kind, **fields):
    return UBXMessage("NAV", f"NAV-{kind}", GET, **fields).serialize()


def pvt(**fields):
    return nav("PVT", **PVT | fields)


def eoe(itow=100_000):
    return nav("EOE", iTOW=itow)


MOVING_BASE = {
    **{
        "version": 1,
        "iTOW": 100_000,
        "relPosN": 0,
        "relPosE": 100,
        "relPosLength": 100,
        "relPosHeading": 91.5,
    },
    **{
        "accHeading": 0.25,
        "gnssFixOK": 1,
        "relPosValid": 1,
        "carrSoln": 2,
        "isMoving": 1,
        "relPosHeadingValid": 1,
    },
}


def epochs(count, *kinds, period=100, begin=100_000):
    """(time of arrival, ms; messages) of each epoch."""
    made = {
        "PVT": lambda itow: pvt(iTOW=itow),
        "HP": lambda itow: nav("HPPOSLLH", iTOW=itow, lon=8.5, lat=47.25, height=412_500, hAcc=140, vAcc=210),
        "REL": lambda itow: nav("RELPOSNED", **MOVING_BASE | {"iTOW": itow}),
        "EOE": eoe,
        "RAW": lambda itow: UBXMessage("RXM", "RXM-SFRBX", GET, gnssId=0, numWords=2).serialize(),
    }
    return [(i * period, [made[kind](begin + i * period) for kind in kinds]) for i in range(count)]
