/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The life of a process around its calls: signals, jumps out of handlers, forks, cancellation, threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static char block[200000];
static int file, calls;
static sigjmp_buf place;

static void use(int times)
{
    for (int i = 0; i < times; i++)
        if (pwrite(file, block, 5000, 0) == 5000) calls++;
}

static void nothing(int number) { }
static void writes(int number) { use(1); }
static void jumps(int number) { siglongjmp(place, 1); }

static void handle(int number, void (*handler)(int), int flags)
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
    sigaction(number, &action, 0);
}

/* Later: a signal to the process, or bytes to a descriptor. */
static void later(int number, int fd)
{
    pid_t parent = getpid();
    if (fork() == 0) {
        usleep(100000);
        if (number) kill(parent, number);
        usleep(100000);
        if (fd >= 0) write(fd, "later", 5);
        _exit(0);
    }
}

static void interrupted(void)
{
    int ends[2];
    pipe(ends);
    handle(SIGUSR1, nothing, 0);
    later(SIGUSR1, -1);
    long answer = read(ends[0], block, 9000);
    printf("without restart %ld %d\n", answer, errno == EINTR);
    wait(0);
    handle(SIGUSR1, nothing, SA_RESTART);
    later(SIGUSR1, ends[1]);
    answer = read(ends[0], block, 9000);
    printf("with restart %ld %.5s\n", answer, block);
    wait(0);
    handle(SIGUSR1, jumps, 0);
    later(SIGUSR1, -1);
    if (sigsetjmp(place, 1) == 0) {
        answer = read(ends[0], block, 9000);
        printf("never here\n");
    } else {
        printf("jumped\n");
    }
    wait(0);
    use(50);
    close(ends[0]);
    close(ends[1]);
}

/* Calls of a handler within calls. */
static void storm(void)
{
    handle(SIGALRM, writes, SA_RESTART);
    struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_REAL, &often, 0);
    use(20000);
    setitimer(ITIMER_REAL, &never, 0);
    printf("storm %d\n", calls >= 20000);
}

static void forks(void)
{
    int status, ends[2];
    for (int i = 0; i < 20; i++) {
        if (fork() == 0) {
            calls = 0;
            use(100);
            _exit(calls == 100 ? 3 : 4);
        }
        wait(&status);
        if (WEXITSTATUS(status) != 3) printf("fork %d\n", WEXITSTATUS(status));
    }
    pipe(ends);
    pid_t child = vfork();
    if (child == 0) {
        /* Its own descriptors: the parent keeps the pipe. */
        close(ends[1]);
        long answer = write(ends[1], block, 5000);
        _exit(answer == -1 && errno == EBADF ? 5 : 6);
    }
    waitpid(child, &status, 0);
    printf("vfork %d\n", WEXITSTATUS(status));
    printf("pipe %ld\n", (long)write(ends[1], block, 5000));
    close(ends[0]);
    close(ends[1]);
}

/* A blocking socket takes all, however small its buffers. */
static void *reader(void *fd)
{
    long sum = 0, some;
    char *to = malloc(300000);
    usleep(50000);
    while ((some = read((int)(long)fd, to, 7000)) > 0)
        sum += some;
    free(to);
    return (void *)sum;
}

static void wholes(void)
{
    for (int kind = 0; kind < 2; kind++) {
        int ends[2];
        pthread_t thread;
        void *sum;
        if (kind) pipe(ends); else socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        pthread_create(&thread, 0, reader, (void *)(long)ends[0]);
        long answer = write(ends[1], block, sizeof block);
        close(ends[1]);
        pthread_join(thread, &sum);
        printf("whole %ld %ld\n", answer, (long)sum);
        close(ends[0]);
    }
}

static void *waits(void *fd)
{
    use(100);
    read((int)(long)fd, block, 9000);
    return 0;
}

static void *works(void *unused)
{
    for (int i = 0; i < 60; i++)
        if (pread(file, (char[4096]){ 0 }, 4096, 0) != 4096) return (void *)1;
    return 0;
}

static void threads(void)
{
    int ends[2];
    pthread_t thread, many[100];
    void *answer;
    long wrong = 0;
    pipe(ends);
    pthread_create(&thread, 0, waits, (void *)(long)ends[0]);
    usleep(100000);
    pthread_cancel(thread);
    pthread_join(thread, &answer);
    printf("cancelled %d\n", answer == PTHREAD_CANCELED);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 100; i++) pthread_create(&many[i], 0, works, 0);
        for (int i = 0; i < 100; i++) {
            pthread_join(many[i], &answer);
            wrong += answer != 0;
        }
    }
    printf("threads %ld\n", wrong);
}

int main(void)
{
    setvbuf(stdout, 0, _IONBF, 0);
    file = open("life.data", O_CREAT | O_RDWR, 0600);
    use(100);
    interrupted();
    storm();
    forks();
    wholes();
    threads();
    for (int fd = 3; fd < 100; fd++) close(fd);
    file = open("life.data", O_CREAT | O_RDWR, 0600);
    calls = 0;
    use(100);
    printf("after closing all %d\n", calls);
    return 0;
}
