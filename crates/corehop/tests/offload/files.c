/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Calls whose outcome depends on more than their bytes: transfers of nothing, files of /proc that each thread has for
 * itself, and files that wait until a signal comes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

static char block[8192];
static int file;

static void use(int times)
{
    while (times--)
        if (pwrite(file, block, 5000, 0) != 5000) abort();
}

static void said(const char *what, long answer)
{
    printf("%s %ld %s\n", what, answer, answer < 0 ? strerrorname_np(errno) : "");
}

/* Transfers of nothing: a message must stay, and none may come about. */
static void nothing(const char *kind, int from, int to, int is_socket)
{
    struct iovec empty[2] = { { block, 0 }, { block, 0 } };
    char left[16] = "";
    printf("%s\n", kind);
    said("read", read(from, block, 0));
    said("readv", readv(from, empty, 2));
    said("read nowhere", read(from, 0, 0));
    said("read", read(from, left, 6));
    printf("left %.6s\n", left);
    said("writev", writev(to, empty, 2));
    said("write", write(to, block, 0));
    said("pread", pread(from, block, 0, 0));
    said("pwrite", pwrite(to, block, 0, 0));
    fcntl(from, F_SETFL, fcntl(from, F_GETFL) | O_NONBLOCK);
    said("read empty", read(from, block, 0));
    for (int i = 0; i < 3; i++) said("read next", read(from, block, 10));
    if (!is_socket) return;
    said("recv", recv(from, block, 0, 0));
    said("send", send(to, block, 0, 0));
    said("recv", recv(from, block, 0, 0));
}

static void transfers(void)
{
    static const struct { const char *name; int family, type; } kinds[] = {
        { "datagrams", AF_UNIX, SOCK_DGRAM }, { "packets", AF_UNIX, SOCK_SEQPACKET },
        { "stream", AF_UNIX, SOCK_STREAM },
    };
    int ends[2];
    for (int i = 0; i < 3; i++) {
        socketpair(kinds[i].family, kinds[i].type, 0, ends);
        write(ends[1], "first.", 6);
        nothing(kinds[i].name, ends[0], ends[1], 1);
    }
    pipe(ends);
    write(ends[1], "first.", 6);
    nothing("pipe", ends[0], ends[1], 0);
    int other = open("nothing.data", O_CREAT | O_TRUNC | O_RDWR, 0600);
    pwrite(other, "first.", 6, 0);
    nothing("file", other, other, 0);
    int zero = open("/dev/zero", O_RDWR);
    nothing("device", zero, zero, 0);
    nothing("none", -1, -1, 1);
}

/* The number of the thread at the begin of a file that each thread has for itself. */
static int own(int fd)
{
    memset(block, 0, sizeof block);
    int some = fd < 0 ? -1 : read(fd, block, 100);
    close(fd);
    return some > 0 && atoi(block) == gettid();
}

static void of_a_thread(void)
{
    struct stat by[4];
    struct statx more;
    char path[64];
    int proc = open("/proc", O_PATH);
    symlink("/proc/thread-self/stat", "stat.link");
    printf("open %d\n", own(open("/proc/thread-self/stat", O_RDONLY)));
    printf("openat %d\n", own(openat(proc, "thread-self/stat", O_RDONLY)));
    printf("link %d\n", own(open("stat.link", O_RDONLY)));
    printf("O_PATH %d\n", own(openat(open("/proc/thread-self", O_PATH), "stat", O_RDONLY)));
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", gettid());
    stat(path, &by[0]);
    stat("/proc/thread-self/comm", &by[1]);
    fstatat(proc, "thread-self/comm", &by[2], 0);
    statx(proc, "thread-self/comm", 0, STATX_INO, &more);
    printf("stat %d %d %d\n", by[0].st_ino == by[1].st_ino, by[0].st_ino == by[2].st_ino, by[0].st_ino == more.stx_ino);
    printf("lstat %d\n", fstatat(proc, "thread-self", &by[3], AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(by[3].st_mode));
    int comm = open("/proc/thread-self/comm", O_RDWR);
    said("name", write(comm, "renamed", 7));
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", gettid());
    int again = open(path, O_RDONLY);
    said("name", read(again, block, 20));
    printf("%.7s\n", block);
    said("missing", open("/proc/thread-self/missing", O_RDONLY));
    said("missing", stat("missing", &by[0]));
    said("fsync", fsync(comm));
}

static volatile int caught;
static void handler(int number) { caught++; }

/* What a call that waits answers when a signal comes. */
static void interrupted(const char *what, long (*waits)(int), int fd)
{
    struct sigaction action = { .sa_handler = handler };
    struct itimerval soon = { { 0, 100000 }, { 0, 100000 } }, never = { { 0, 0 }, { 0, 0 } };
    sigaction(SIGALRM, &action, 0);
    caught = 0;
    setitimer(ITIMER_REAL, &soon, 0);
    long answer = waits(fd);
    setitimer(ITIMER_REAL, &never, 0);
    printf("%s interrupted %ld %s %d\n", what, answer, answer < 0 ? strerrorname_np(errno) : "", caught > 0);
}

static long reads(int fd) { return read(fd, block, 4096); }
static long reads_there(int fd) { return pread(fd, block, 4096, 0); }
static long syncs(int fd) { return fsync(fd); }
static long opens(int fd) { return open("fuse/file", O_RDONLY); }
static long sends(int fd) { return sendfile(file, fd, 0, 4096); }

/* An instance of its own, so that no other reader loses a line. */
static void traced(void)
{
    char instance[64], path[96];
    snprintf(instance, sizeof instance, "trace/instances/corehop-%d", getpid());
    snprintf(path, sizeof path, "%s/trace_pipe", instance);
    mkdir("trace", 0700);
    if (mount("none", "trace", "tracefs", 0, 0) || mkdir(instance, 0700)) return (void)printf("no tracefs\n");
    int pipe = open(path, O_RDONLY);
    interrupted("trace_pipe", reads, pipe);
    interrupted("trace_pipe by sendfile", sends, pipe);
    close(pipe);
    rmdir(instance);
    umount("trace");
}

static void answer(int fuse, const struct fuse_in_header *in, const void *what, int size)
{
    struct fuse_out_header out = { sizeof out + size, 0, in->unique };
    struct iovec parts[2] = { { &out, sizeof out }, { (void *)what, size } };
    writev(fuse, parts, 2);
}

/* A file system with one file, which is opened twice; all else waits until a signal interrupts it. */
static void serve(int fuse)
{
    static char from[1 << 17];
    const struct fuse_in_header *in = (void *)from;
    struct fuse_init_out init = { .major = 7, .minor = 31, .max_write = 4096 };
    struct fuse_attr_out folder = { .attr = { .ino = 1, .mode = S_IFDIR | 0755, .nlink = 2 } };
    struct fuse_entry_out entry = { .nodeid = 2, .attr = { .ino = 2, .mode = S_IFREG | 0644, .nlink = 1, .size = 9000 } };
    struct fuse_attr_out attributes = { .attr = entry.attr };
    struct fuse_statfs_out status = { .st = { .bsize = 512 } };
    struct fuse_open_out opened = { .fh = 1, .open_flags = FOPEN_DIRECT_IO };
    const struct fuse_interrupt_in *which = (void *)(from + sizeof *in);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int opens = 0; read(fuse, from, sizeof from) > 0;) {
        switch (in->opcode) {
        case FUSE_INIT: answer(fuse, in, &init, sizeof init); break;
        case FUSE_GETATTR: answer(fuse, in, in->nodeid == 1 ? &folder : &attributes, sizeof folder); break;
        case FUSE_LOOKUP: answer(fuse, in, &entry, sizeof entry); break;
        case FUSE_STATFS: answer(fuse, in, &status, sizeof status); break;
        case FUSE_FLUSH: case FUSE_RELEASE: answer(fuse, in, 0, 0); break;
        case FUSE_OPEN:
            if (opens++ < 2) answer(fuse, in, &opened, sizeof opened);
            break;
        case FUSE_INTERRUPT: {
            struct fuse_out_header out = { sizeof out, -EINTR, which->unique };
            write(fuse, &out, sizeof out);
            break;
        }
        default: break;
        }
    }
    _exit(0);
}

static void fused(void)
{
    char how[64];
    int fuse = open("/dev/fuse", O_RDWR);
    snprintf(how, sizeof how, "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
    mkdir("fuse", 0700);
    if (fuse < 0 || mount("none", "fuse", "fuse", 0, how)) return (void)printf("no FUSE\n");
    pid_t server = fork();
    if (server == 0) serve(fuse);
    /* The server's end is the end of the file system. */
    close(fuse);
    int first = open("fuse/file", O_RDWR), second = open("fuse/file", O_RDWR);
    printf("opened %d\n", first >= 0 && second >= 0);
    interrupted("FUSE", reads, first);
    interrupted("FUSE pread", reads_there, first);
    interrupted("FUSE fsync", syncs, first);
    interrupted("FUSE sendfile", sends, first);
    interrupted("FUSE open", opens, 0);
    kill(server, SIGKILL);
    close(first);
    close(second);
    umount2("fuse", MNT_DETACH);
}

/* The mounts are made in a namespace of its own, which is left behind by exec: a thread in a new one has no partner. */
int main(int count, char **words)
{
    setvbuf(stdout, 0, _IOLBF, 0);
    file = open("files.data", O_CREAT | O_RDWR, 0600);
    if (count == 1) {
        if (unshare(CLONE_NEWNS) == 0) mount("none", "/", 0, MS_REC | MS_PRIVATE, 0);
        execl("/proc/self/exe", "files", "inside", (char *)0);
    }
    use(100);
    transfers();
    fused();
    traced();
    use(100);
    of_a_thread();
    return 0;
}
