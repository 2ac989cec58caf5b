// SPDX-License-Identifier: MIT OR Apache-2.0
// A library with a planted fault in read(2), to stand before the one under test. `errno` loses the error of a
// failed one, `twice` gives every tenth the answer of the one before, `lost` never returns from the fiftieth.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
ssize_t read(int file, void *to, size_t size) {
    static ssize_t (*next)(int, void *, size_t);
    static ssize_t last;
    static int calls;
    const char *fault = getenv("FAULT");
    if (!next) next = dlsym(RTLD_NEXT, "read");
    calls++;
    if (fault[0] == 'l' && calls == 50) for (;;) pause();
    ssize_t answer = next(file, to, size);
    if (fault[0] == 'e' && answer < 0) errno = 0;
    if (fault[0] == 't' && calls % 10 == 0) answer = last;
    last = answer;
    return answer;
}
