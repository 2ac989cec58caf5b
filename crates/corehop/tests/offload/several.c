/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Threads that are busy with calls while rights are given up: each in its handler of a signal, as libpsx has them do, or
 * all by one call. Prints how often a thread was left over, or had other rights than the rest. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 2, ROUNDS = 25 };
static char block[8192];
static int file, ready, done, ends, tids[WORKERS];
static struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
static struct sock_fprog program = { 1, allow };
static struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
static struct __user_cap_data_struct none[2];

static void drop(int number)
{
    struct __user_cap_header_struct own = header;
    syscall(SYS_capset, &own, none);
    __atomic_fetch_add(&done, 1, __ATOMIC_SEQ_CST);
}

static void *work(void *number)
{
    tids[(long)number] = gettid();
    for (int i = 0; !__atomic_load_n(&ends, __ATOMIC_SEQ_CST); i++) {
        char *volatile memory[8];
        for (int j = 0; j < 8; j++) memory[j] = malloc(3000 + 100 * j);
        if (pwrite(file, block, 5000, 0) != 5000) abort();
        for (int j = 0; j < 8; j++) free(memory[j]);
        if (i == 100) __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    }
    return 0;
}

/* Threads beyond the program's own, and threads with other rights than the first. */
static int wrong(int threads)
{
    char path[300], line[512], first[64] = "";
    int found = 0, others = 0;
    struct dirent *entry;
    DIR *tasks = opendir("/proc/self/task");
    while ((entry = readdir(tasks))) {
        if (entry->d_name[0] == '.') continue;
        found++;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *status = fopen(path, "r");
        while (status && fgets(line, sizeof line, status))
            if (strncmp(line, "CapEff:", 7) == 0) {
                if (!*first) strcpy(first, line);
                others += strcmp(first, line) != 0;
            }
        if (status) fclose(status);
    }
    closedir(tasks);
    return found - threads + others;
}

static int round_of(int all)
{
    pthread_t threads[WORKERS];
    signal(SIGSYS, drop);
    for (long i = 0; i < WORKERS; i++) pthread_create(&threads[i], 0, work, (void *)i);
    while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < WORKERS) usleep(100);
    int before = wrong(WORKERS + 1);
    if (all) {
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) abort();
    } else {
        for (int i = 0; i < WORKERS; i++) syscall(SYS_tgkill, getpid(), tids[i], SIGSYS);
        drop(0);
        while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) <= WORKERS) usleep(100);
    }
    int after = wrong(WORKERS + 1);
    usleep(5000);
    after += wrong(WORKERS + 1);
    __atomic_store_n(&ends, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], 0);
    return (after != 0) | (before != 0) << 1;
}

int main(void)
{
    int status, left[2] = { 0, 0 }, partners = 0;
    file = open("several.data", O_CREAT | O_RDWR, 0600);
    for (int i = 0; i < 2 * ROUNDS; i++) {
        if (fork() == 0) {
            alarm(20);
            _exit(round_of(i % 2));
        }
        wait(&status);
        left[i % 2] += !WIFEXITED(status) || WEXITSTATUS(status) & 1;
        partners += WIFEXITED(status) && WEXITSTATUS(status) & 2;
    }
    printf("left by handlers %d, by one call for all %d\n", left[0], left[1]);
    fprintf(stderr, "rounds with partners %d\n", partners);
    return 0;
}
