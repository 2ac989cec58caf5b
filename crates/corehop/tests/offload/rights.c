/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Ways to give up rights, each in a child of its own, by the function and by syscall(): prints the answer, and the rights
 * of all threads after it. With a number: unshare(CLONE_NEWUSER) in that number of children. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char block[8192];
static int file;

static void use(int times)
{
    while (times--)
        if (pwrite(file, block, 5000, 0) != 5000) abort();
}

/* The rights of a thread, as text. */
static void rights(int tid, char *to)
{
    static const char *const lines[] = { "Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp" };
    char path[300], line[512], link[64];
    *to = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    FILE *status = fopen(path, "r");
    while (status && fgets(line, sizeof line, status))
        for (int i = 0; i < 6; i++)
            if (strncmp(line, lines[i], strlen(lines[i])) == 0) strcat(to, line);
    if (status) fclose(status);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/proc/self/task/%d/ns/%s", tid, i ? "uts" : "user");
        long length = readlink(path, link, sizeof link - 1);
        link[length < 0 ? 0 : length] = 0;
        strcat(to, link);
    }
}

/* The number of threads, and of those whose rights are not the caller's. */
static int threads(int *others)
{
    static char own[4096], its[4096];
    struct dirent *entry;
    int count = 0;
    *others = 0;
    rights(gettid(), own);
    DIR *tasks = opendir("/proc/self/task");
    while ((entry = readdir(tasks))) {
        if (entry->d_name[0] == '.') continue;
        count++;
        rights(atoi(entry->d_name), its);
        *others += strcmp(own, its) != 0;
    }
    closedir(tasks);
    return count;
}

static struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
static struct sock_fprog program = { 1, allow };
static struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
static struct __user_cap_data_struct none[2];

int capset(void *, const void *);
#define BY(function, number, ...) (raw ? syscall(number, __VA_ARGS__) : function(__VA_ARGS__))

static long landlock(int flags)
{
    unsigned long long handled = 1 << 1;
    int rules = syscall(444, &handled, 8, 0);
    return rules < 0 ? rules : syscall(446, rules, flags);
}

static long uts(int raw)
{
    int other = open("/proc/self/ns/uts", O_RDONLY);
    return BY(setns, SYS_setns, other, CLONE_NEWUTS);
}

static long way(int number, int raw)
{
    switch (number) {
    case 0: return BY(capset, SYS_capset, &header, none);
    case 1: return BY(prctl, SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    case 2: return BY(prctl, SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
    case 3: return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    case 4: return BY(prctl, SYS_prctl, PR_CAPBSET_DROP, 21, 0, 0, 0);
    case 5: return BY(prctl, SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    case 6: return BY(prctl, SYS_prctl, PR_SET_SECUREBITS, 0x2f, 0, 0, 0);
    case 7: return BY(unshare, SYS_unshare, CLONE_NEWUTS);
    case 8: return BY(unshare, SYS_unshare, CLONE_NEWUSER);
    case 9: return BY(unshare, SYS_unshare, CLONE_FS | CLONE_FILES);
    case 10: return uts(raw);
    case 11: return BY(setfsuid, SYS_setfsuid, 65534);
    case 12: return BY(setfsgid, SYS_setfsgid, 65534);
    case 13: return landlock(0);
    case 14: return landlock(8);
    case 15: return raw ? syscall(SYS_setresuid, 65534, 65534, 65534) : setresuid(65534, 65534, 65534);
    case 16: return raw ? syscall(SYS_setgroups, 0, 0) : setgroups(0, 0);
    case 17: return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    case 18: return BY(personality, SYS_personality, ADDR_NO_RANDOMIZE);
    case 19: return BY(prctl, SYS_prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0);
    case 20: return syscall(SYS_keyctl, 1, 0, 0, 0, 0) > 0;
    case 21: return BY(prctl, SYS_prctl, PR_SET_SPECULATION_CTRL, 0, 1 << 2, 0, 0);
    case 22: return BY(close_range, SYS_close_range, 900, 901, 1 << 1);
    default: return -1;
    }
}

static int change(int number, int raw)
{
    int others;
    use(100);
    int before = threads(&others);
    errno = 0;
    long answer = way(number, raw);
    int error = errno, after = threads(&others);
    printf("%d %d: %ld %s, other rights %d", number, raw, answer, strerrorname_np(error), others);
    /* By the functions of libc these change in all threads, and so in a partner. */
    if (raw || (number != 15 && number != 16)) printf(", threads %d", after);
    use(50);
    threads(&others);
    printf(", later %d\n", others);
    return before > 1;
}

int main(int count, char **words)
{
    int status, wrong = 0, partners = 0;
    setvbuf(stdout, 0, _IOLBF, 0);
    file = open("rights.data", O_CREAT | O_RDWR, 0600);
    for (int i = 0; count > 1 && i < atoi(words[1]); i++) {
        if (fork() == 0) {
            use(40);
            _exit(unshare(CLONE_NEWUSER) ? 1 : 0);
        }
        wait(&status);
        wrong += status != 0;
    }
    if (count > 1) return printf("refused %d\n", wrong) < 0;
    for (int number = 0; number < 23; number++)
        for (int raw = 0; raw < 2; raw++) {
            if (fork() == 0) exit(change(number, raw));
            wait(&status);
            partners += WEXITSTATUS(status);
            if (!WIFEXITED(status)) printf("%d %d: signal %d\n", number, raw, WTERMSIG(status));
        }
    fprintf(stderr, "partners %d\n", partners);
    return 0;
}
