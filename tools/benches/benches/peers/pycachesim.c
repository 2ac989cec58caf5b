// SPDX-License-Identifier: MIT OR Apache-2.0
// Feeds a trace to pycachesim's C core without Python in between.

struct range {
    long address, length;
};

void drive(void *cache, int (*load)(void *, struct range), const unsigned *lines, long count)
{
    for (long at = 0; at < count; at++)
        load(cache, (struct range){(long)lines[at] * 64, 1});
}
