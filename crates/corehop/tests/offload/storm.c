// SPDX-License-Identifier: MIT OR Apache-2.0
// Threads that read, a signal every half millisecond whose handler reads too, and forks meanwhile whose children read.
// Prints what is right; all of it is the same with every timing, but for the signals.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
enum { THREADS = 4, READS = 3000, FORKS = 150, BLOCK = 8192 };
static int file;
static atomic_long right, wrong;
static volatile sig_atomic_t signals;
static int read_right(void) {
    unsigned char block[BLOCK];
    if (pread(file, block, BLOCK, 0) != BLOCK) return 0;
    for (int at = 0; at < BLOCK; at++) if (block[at] != (unsigned char)(at * 7)) return 0;
    return 1;
}
static void caught(int number) {
    int before = errno;
    signals++;
    if (!read_right()) wrong++;
    errno = before;
}
static void *run(void *unused) {
    for (int i = 0; i < READS; i++) {
        errno = 77;
        if (read_right()) right++;
        if (errno != 77) wrong++;
        if (pread(-1, &unused, 1, 0) != -1 || errno != EBADF) wrong++;
    }
    return 0;
}
int main(void) {
    unsigned char bytes[BLOCK];
    pthread_t threads[THREADS];
    struct itimerval often = { { 0, 500 }, { 0, 500 } };
    int failed = 0;
    for (int at = 0; at < BLOCK; at++) bytes[at] = at * 7;
    file = open("bytes", O_CREAT | O_TRUNC | O_RDWR, 0600);
    write(file, bytes, sizeof bytes);
    struct sigaction action = { .sa_handler = caught, .sa_flags = SA_RESTART };
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, run, 0);
    for (int i = 0; i < FORKS; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            int good = 0;
            for (int k = 0; k < 50; k++) good += read_right();
            _exit(good != 50);
        }
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) { }
        failed += status != 0;
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    printf("right %ld wrong %ld failed %d signals %d\n", right, wrong, failed, signals > 20);
    return 0;
}
