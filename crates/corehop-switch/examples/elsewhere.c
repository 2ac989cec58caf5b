/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Runs a function on another core: cc elsewhere.c $(pkg-config --cflags --libs corehop_switch) */
#include <corehop_switch.h>
#include <stdio.h>

static uint64_t square(void *number) { return *(uint64_t *)number * *(uint64_t *)number; }

int main(void) {
    uint64_t number = 12;
    corehop_switch *other = corehop_switch_open(NULL);
    printf("%lu\n", (unsigned long)corehop_switch_call(other, square, &number));
    corehop_switch_close(other);
}
