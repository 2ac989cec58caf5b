# SPDX-License-Identifier: MIT OR Apache-2.0
"""Accesses per second of pycachesim's C core: `pycachesim.py DRIVER.so TRACE PASSES`.

The trace is 32-bit line numbers, walked once to fill the caches and then PASSES times. CPU time.
"""

import array
import ctypes
import sys
import time

import cachesim
from cachesim import backend


def machine():
    """32 KiB of 8 ways, 256 KiB of 8, 12 MiB of 16, all LRU, as in the bench of the simulator."""
    memory = cachesim.MainMemory()
    l3 = cachesim.Cache("L3", 12288, 16, 64, "LRU")
    l2 = cachesim.Cache("L2", 512, 8, 64, "LRU", store_to=l3, load_from=l3)
    l1 = cachesim.Cache("L1", 64, 8, 64, "LRU", store_to=l2, load_from=l2)
    memory.load_to(l3)
    memory.store_from(l3)
    return cachesim.CacheSimulator(l1, memory), l1


def main(driver, trace, passes):
    lines = array.array("I")
    with open(trace, "rb") as file:
        lines.frombytes(file.read())
    simulator, l1 = machine()
    core = ctypes.CDLL(backend.__file__)
    drive = ctypes.CDLL(driver).drive
    pointer = (ctypes.c_uint * len(lines)).from_buffer(lines)
    load = ctypes.cast(core.Cache__load, ctypes.c_void_p)
    cache = ctypes.c_void_p(id(l1.backend))

    def walk():
        drive(cache, load, pointer, ctypes.c_long(len(lines)))

    walk()
    begin = time.process_time()
    for _ in range(passes):
        walk()
    seconds = time.process_time() - begin
    print(len(lines) * passes / seconds)
    hits = [level.backend.HIT_count for level in simulator.levels(with_mem=False)]
    print(*hits, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
