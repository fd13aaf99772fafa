"""Answers about the occupancy data, to compare the Go package with.

Run by hand, with the data file as its argument; what it prints is occupancy.json:

    python3 occupancy.py ../../../testdata/occupancy/occupancy-training.csv > occupancy.json

It uses exact fractions and the standard library's time zones, and shares
nothing with the Go code but the definitions in docs/history.md.
"""

import csv
import hashlib
import json
import math
import sys
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from zoneinfo import ZoneInfo

KEYS = ["Temperature", "CO2", "Occupancy"]


def number(text):
    return float(text) if "." in text else int(text)


def percentile(values, p):
    values = sorted(values)
    rank = Fraction(str(p)) / 100 * (len(values) - 1)
    low = math.floor(rank)
    if rank == low:
        return values[low]
    a, b = Fraction(values[low]), Fraction(values[low + 1])
    return float(a + (b - a) * (rank - low))


def rate(points):
    if len(points) < 2:
        return None
    up = Fraction(0)
    for (_, a), (_, b) in zip(points, points[1:]):
        if b >= a:
            up += Fraction(b) - Fraction(a)
        elif b > 0:
            up += Fraction(b)
    return float(up / Fraction(points[-1][0] - points[0][0], 1000))


def answers(points, before):
    values = [v for _, v in points]
    whole = sum(Fraction(v) for v in values)
    ints = all(isinstance(v, int) for v in values)
    return [
        len(values),
        min(values),
        max(values),
        values[0],
        values[-1],
        int(whole) if ints else float(whole),
        float(whole / len(values)),
        percentile(values, 50),
        percentile(values, 95),
        rate(([before] if before else []) + points),
    ]


def buckets(points, start_of):
    found = {}
    for i, (ts, _) in enumerate(points):
        found.setdefault(start_of(ts), []).append(i)
    out = []
    for start, at in sorted(found.items()):
        before = points[at[0] - 1] if at[0] > 0 else None
        out.append([start] + answers([points[i] for i in at], before))
    return out


def by_steps(step):
    return lambda ts: ts - ts % step


def by_days(zone):
    def start(ts):
        local = datetime.fromtimestamp(ts / 1000, zone)
        return int(datetime(local.year, local.month, local.day, tzinfo=zone).timestamp()) * 1000

    return start


def by_weeks(zone):
    def start(ts):
        local = datetime.fromtimestamp(ts / 1000, zone)
        monday = datetime(local.year, local.month, local.day) - timedelta(days=local.weekday())
        return int(monday.replace(tzinfo=zone).timestamp()) * 1000

    return start


def main():
    data = open(sys.argv[1], "rb").read()
    rows = list(csv.DictReader(data.decode().splitlines()))
    series = {}
    for key in KEYS:
        series[key] = [
            (int(datetime.fromisoformat(r["Date"]).replace(tzinfo=timezone.utc).timestamp()) * 1000, number(r[key]))
            for r in rows
        ]
    brussels = ZoneInfo("Europe/Brussels")
    out = {"sha256": hashlib.sha256(data).hexdigest(), "answers": []}
    for key in KEYS:
        grids = [("day", by_days(brussels)), ("week", by_weeks(brussels)), ("6h0m0s", by_steps(21600000))]
        if key != "CO2":
            grids.append(("1h0m0s", by_steps(3600000)))
        for name, start_of in grids:
            out["answers"].append({"key": key, "grid": name, "zone": "Europe/Brussels", "buckets": buckets(series[key], start_of)})
    text = json.dumps(out)
    print(text.replace('{"key"', '\n{"key"').replace("[[", "[\n[").replace("], [", "],\n["))


main()
