#!/usr/bin/env python3
"""KaHIP on the graphs that `farol-bench partition --write FOLDER` wrote; `pip install kahip` first.

Usage: bench/with_kahip.py PARTS[,PARTS...] FILE.graph...
"""

import sys
import time

import kahip

SLACK = 0.03
MODES = {"fast social": 3, "eco social": 4}


def read(path):
    with open(path) as lines:
        count = int(next(lines).split()[0])
        starts, targets, weights = [0], [], []
        for line in lines:
            numbers = list(map(int, line.split()))
            targets += [number - 1 for number in numbers[0::2]]
            weights += numbers[1::2]
            starts.append(len(targets))
    assert len(starts) == count + 1
    return starts, targets, weights


def main():
    parts, files = sys.argv[1].split(","), sys.argv[2:]
    print("| graph | k | KaHIP | cut | overload | s |\n|---|---:|---|---:|---:|---:|")
    for path in files:
        starts, targets, weights = read(path)
        count = len(starts) - 1
        for k in map(int, parts):
            for name, mode in MODES.items():
                begun = time.time()
                cut, part = kahip.kaffpa([1] * count, starts, weights, targets, k, SLACK, True, 1, mode)
                seconds = time.time() - begun
                loads = [0] * k
                for own in part:
                    loads[own] += 1
                overload = max(loads) * k / count
                print(f"| {path.split('/')[-1]} | {k} | {name} | {cut} | {overload:.3f} | {seconds:.1f} |", flush=True)


main()
