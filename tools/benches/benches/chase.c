// SPDX-License-Identifier: MIT OR Apache-2.0
// A plain pointer chase, written apart from corehop's own walk to be compared with it: one pointer per
// 64-byte line, a random cycle over all lines, base pages, no time stamp but at both ends.
//
// chase CPU BYTES PASSES: prints the median time per access over the passes, in nanoseconds.
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

struct line {
    struct line *next;
    char rest[56];
};

static uint64_t state = 88172645463325252ull;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct line *walk(struct line *at, size_t steps)
{
    while (steps--)
        at = *(struct line *volatile *)at;
    return at;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(atoi(argv[1]), &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus))
        return 1;
    size_t n = strtoull(argv[2], 0, 10) / sizeof(struct line), passes = strtoull(argv[3], 0, 10);
    struct line *lines = mmap(0, n * sizeof *lines, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    double *times = malloc(passes * sizeof *times);
    uint32_t *next = malloc(n * sizeof *next);
    if (lines == MAP_FAILED || !times || !next)
        return 1;
    madvise(lines, n * sizeof *lines, MADV_NOHUGEPAGE);
    state += (uint64_t)time(0) ^ (uintptr_t)lines;
    for (size_t i = 0; i < n; i++)
        next[i] = i;
    for (size_t i = n - 1; i > 0; i--) {
        size_t j = draw() % i;
        uint32_t swap = next[i];
        next[i] = next[j];
        next[j] = swap;
    }
    for (size_t i = 0; i < n; i++)
        lines[i].next = lines + next[i];
    // Small sets are walked several times between two looks at the clock.
    size_t rounds = n < 4096 ? 4096 / n : 1;
    struct line *at = walk(lines, 2 * n);
    for (size_t pass = 0; pass < passes; pass++) {
        double begin = seconds();
        at = walk(at, n * rounds);
        times[pass] = (seconds() - begin) / (n * rounds);
    }
    qsort(times, passes, sizeof *times, by_size);
    printf("%.4f\n", times[passes / 2] * 1e9);
    return at == 0;
}
