/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Changes the file of its own counts in a way that its argument names, and ends with 7. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t words[300000];

int main(int count, char **arguments)
{
    const char *how = arguments[1], *board = getenv("COREHOP_OFFLOAD");
    char path[4096], aside[4200];
    struct stat of;
    snprintf(path, sizeof path, "%s/%d", board, (int)geteuid());
    snprintf(aside, sizeof aside, "%s/aside", board);
    int file = open(path, O_RDWR);
    if (file < 0 || fstat(file, &of)) return 1;
    if (!strcmp(how, "cut")) ftruncate(file, 0);
    if (!strcmp(how, "shorten")) ftruncate(file, of.st_size - 1);
    if (!strcmp(how, "lengthen")) ftruncate(file, of.st_size + 4096);
    if (!strcmp(how, "fill") || !strcmp(how, "all")) memset(words, 0xff, sizeof words);
    /* Two numbers of a thread's row whose sum is small again. */
    for (int row = 128; row < 200000; row += 250) words[row + 8] = 1ull << 63, words[row + 19] = (1ull << 63) + 1;
    if (!strcmp(how, "fill") || !strcmp(how, "wrap")) syscall(SYS_pwrite64, file, words, of.st_size, 0);
    if (!strcmp(how, "remove") || !strcmp(how, "link") || !strcmp(how, "fifo")) unlink(path);
    if (!strcmp(how, "link")) symlink("/dev/zero", path);
    if (!strcmp(how, "fifo")) mkfifo(path, 0600);
    if (!strcmp(how, "all")) {
        char command[8400];
        unsetenv("LD_PRELOAD");
        snprintf(command, sizeof command, "rm -rf '%s'", board);
        system(command);
    }
    _exit(7);
}
