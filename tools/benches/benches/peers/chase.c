// SPDX-License-Identifier: MIT OR Apache-2.0
// A dependent walk over lines of 64 bytes in the order of a trace, to be run under cachegrind.
//
// chase TRACE PASSES: the trace is 32-bit line numbers.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct line {
    struct line *next;
    char rest[56];
};

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    FILE *file = fopen(argv[1], "rb");
    if (!file)
        return 1;
    fseek(file, 0, SEEK_END);
    size_t count = ftell(file) / sizeof(uint32_t);
    rewind(file);
    uint32_t *order = malloc(count * sizeof(uint32_t));
    struct line *lines = aligned_alloc(64, count * sizeof(struct line));
    if (!order || !lines || fread(order, sizeof(uint32_t), count, file) != count)
        return 1;
    for (size_t at = 0; at < count; at++)
        lines[order[at]].next = &lines[order[(at + 1) % count]];
    struct line *here = &lines[order[0]];
    for (uint64_t left = strtoull(argv[2], NULL, 10) * count; left; left--)
        here = here->next;
    printf("%td\n", here - lines);
    return 0;
}
