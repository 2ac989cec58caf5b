// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads for the seconds given, and prints how many CPUs the main thread has had at the end, at the least while it read,
// and how many a thread has that chose one itself.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static int file;
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
static int cpus(void) {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    return CPU_COUNT(&set);
}
static double until;
static void *chosen(void *count) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(1, &one);
    sched_setaffinity(0, sizeof one, &one);
    while (now() < until) usleep(1000);
    *(int *)count = cpus() * 10 + CPU_ISSET(1, &one);
    return 0;
}
int main(int words, char **word) {
    static char block[8192];
    int of_chosen, least = 1000;
    pthread_t thread;
    until = now() + atof(word[1]);
    file = open("/dev/zero", O_RDONLY);
    pthread_create(&thread, 0, chosen, &of_chosen);
    while (now() < until) {
        for (int i = 0; i < 20; i++) read(file, block, sizeof block);
        if (cpus() < least) least = cpus();
    }
    pthread_join(thread, 0);
    printf("%d %d %d\n", cpus(), least, of_chosen);
    return 0;
}
