/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Random system calls on files, pipes and sockets; every answer, error and byte is printed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static uint64_t state;
static unsigned draw(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

static unsigned hash(const void *data, long length)
{
    const unsigned char *byte = data;
    unsigned sum = 2166136261u;
    for (long at = 0; at < length; at++)
        sum = (sum ^ byte[at]) * 16777619u;
    return sum;
}

static char block[70000];
enum { FILES = 4, PAIRS = 4 };
static int files[FILES], ends[PAIRS][2], queue;

/* What an answer is: the call, the number, the error, and the bytes that came. */
static void say(const char *name, long answer, const void *data)
{
    printf("%s %ld %s %x\n", name, answer, answer < 0 ? strerrorname_np(errno) : "-",
           answer > 0 && data ? hash(data, answer) : 0);
    errno = 0;
}

static void vectors(struct iovec *all, int count)
{
    long at = 0;
    for (int i = 0; i < count; i++) {
        all[i].iov_base = block + at;
        all[i].iov_len = draw(900);
        at += all[i].iov_len;
    }
}

static void step(void)
{
    struct iovec all[70];
    struct stat status;
    struct msghdr message = { 0 };
    struct pollfd polled[PAIRS];
    struct epoll_event event;
    fd_set set;
    struct timeval now = { 0, 0 };
    int file = files[draw(FILES)], pair = draw(PAIRS), side = draw(2), fd;
    unsigned length = draw(9000), count = 1 + draw(70);
    char name[8] = { 'f', (char)('a' + draw(5)), 0 };
    off_t at = draw(20000);

    memset(block, draw(256), sizeof block);
    switch (draw(20)) {
    case 0: say("read", read(file, block, length), block); break;
    case 1: say("write", write(file, block, length), 0); break;
    case 2: say("pread", pread(file, block, length, at), block); break;
    case 3: say("pwrite", pwrite(file, block, length, at), 0); break;
    case 4: vectors(all, count); say("readv", readv(file, all, count), block); break;
    case 5: vectors(all, count); say("writev", writev(file, all, count), 0); break;
    case 6: say("lseek", lseek(file, at, SEEK_SET), 0); break;
    /* The ends of pairs do not wait. */
    case 7: say("read pair", read(ends[pair][side], block, length), block); break;
    case 8: say("write pair", write(ends[pair][side], block, length), 0); break;
    case 9: say("recv", recv(ends[pair][side], block, length, 0), block); break;
    case 10: say("send", send(ends[pair][side], block, length, MSG_NOSIGNAL), 0); break;
    case 11:
        vectors(all, count);
        message.msg_iov = all;
        message.msg_iovlen = count;
        say("recvmsg", recvmsg(ends[pair][side], &message, 0), block);
        printf("flags %x\n", message.msg_flags);
        break;
    case 12:
        vectors(all, count);
        message.msg_iov = all;
        message.msg_iovlen = count;
        say("sendmsg", sendmsg(ends[pair][side], &message, MSG_NOSIGNAL), 0);
        break;
    case 13:
        fd = open(name, draw(2) ? O_RDWR | O_CREAT : O_RDONLY, 0640);
        say("open", fd, 0);
        if (fd >= 0) close(fd);
        break;
    case 14:
        say("stat", draw(2) ? stat(name, &status) : fstatat(AT_FDCWD, name, &status, 0), 0);
        if (draw(4) == 0) say("unlink", unlink(name), 0);
        break;
    case 15: say("fsync", draw(2) ? fsync(file) : fdatasync(ends[pair][0]), 0); break;
    case 16:
        for (int i = 0; i < PAIRS; i++) {
            polled[i].fd = ends[i][side];
            polled[i].events = POLLIN | POLLOUT;
            polled[i].revents = 0;
        }
        say("poll", poll(polled, PAIRS, 0), 0);
        for (int i = 0; i < PAIRS; i++) printf("revents %x\n", polled[i].revents);
        break;
    case 17:
        FD_ZERO(&set);
        for (int i = 0; i < PAIRS; i++) FD_SET(ends[i][side], &set);
        say("select", select(64, &set, 0, 0, &now), 0);
        for (int i = 0; i < PAIRS; i++) printf("set %d\n", FD_ISSET(ends[i][side], &set) != 0);
        break;
    case 18: say("epoll_wait", epoll_wait(queue, &event, 1, 0), 0); break;
    case 19:
        at = draw(1000);
        say("sendfile", sendfile(ends[pair][side], file, &at, length), 0);
        /* A bad pointer, a bad descriptor, a bad length. */
        say("bad", read(file, (void *)8, length), 0);
        say("bad", write(900, block, length), 0);
        say("bad", pread(ends[pair][0], block, length, 5), 0);
        break;
    }
}

int main(int words, char **word)
{
    state = strtoull(word[1], 0, 10) * 2654435761u + 1;
    queue = epoll_create1(0);
    for (int i = 0; i < FILES; i++) {
        char name[8] = { 'f', (char)('a' + i), 0 };
        int extra[] = { 0, O_APPEND, 0, 0 };
        files[i] = open(name, O_RDWR | O_CREAT | extra[i], 0600);
    }
    /* Two stream sockets, a datagram socket, a pipe. */
    for (int i = 0; i < PAIRS; i++) {
        int kind = i == 2 ? SOCK_DGRAM : SOCK_STREAM;
        if (i < 3) socketpair(AF_UNIX, kind | SOCK_NONBLOCK, 0, ends[i]);
        else pipe2(ends[i], O_NONBLOCK);
    }
    struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.fd = ends[0][0] };
    epoll_ctl(queue, EPOLL_CTL_ADD, ends[0][0], &event);
    for (int i = atoi(word[2]); i > 0; i--)
        step();
    return 0;
}
