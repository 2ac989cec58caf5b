// SPDX-License-Identifier: MIT OR Apache-2.0
// A thousand threads: each reads blocks of a file whose bytes tell their place. Prints the blocks that are right.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
enum { THREADS = 1000, READS = 40, BLOCK = 8192, BLOCKS = 64 };
static atomic_long right;
static int file;
static void *run(void *number) {
    unsigned char block[BLOCK];
    for (long i = 0; i < READS; i++) {
        long place = ((long)number * 7 + i * 13) % BLOCKS;
        long got = pread(file, block, BLOCK, place * BLOCK), same = 0;
        for (long at = 0; at < got; at++) same += block[at] == (unsigned char)(place * 31 + at);
        right += same == BLOCK;
    }
    return 0;
}
int main(void) {
    static unsigned char bytes[BLOCKS * BLOCK];
    static pthread_t threads[THREADS];
    pthread_attr_t small;
    for (long at = 0; at < sizeof bytes; at++) bytes[at] = at / BLOCK * 31 + at % BLOCK;
    file = open("bytes", O_CREAT | O_TRUNC | O_RDWR, 0600);
    write(file, bytes, sizeof bytes);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], &small, run, (void *)i)) { puts("no thread"); return 1; }
    for (long i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    printf("%ld\n", right);
    return 0;
}
