/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Calls through the C interface, by every mechanism: `calls [SYNCHRONOUS [POLLING]]`. Built with sanitizers, it tests
 * memory and races too. A host that lacks a mechanism is told, and does the next best. */
#include <corehop_switch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A payload that the other core changes: every word is checked when it comes back. */
struct payload {
    uint64_t number;
    uint64_t words[7];
};

static uint64_t mixed(uint64_t number, uint64_t at) {
    uint64_t word = (number + at) * 0x9e3779b97f4a7c15u;
    return word ^ word >> 29;
}

static uint64_t work(void *argument) {
    struct payload *payload = argument;
    for (uint64_t at = 0; at < 7; at++)
        payload->words[at] = mixed(payload->number, at);
    return ++payload->number;
}

static void check(const struct payload *payload, uint64_t number, uint64_t result, const char *where) {
    int wrong = result != number + 1 || payload->number != number + 1;
    for (uint64_t at = 0; at < 7; at++)
        wrong |= payload->words[at] != mixed(number, at);
    if (wrong) {
        printf("%s: call %" PRIu64 " gave %" PRIu64 "\n", where, number, result);
        exit(1);
    }
}

static void synchronous(corehop_switch *other, uint64_t calls, const char *where) {
    struct payload payload;
    for (uint64_t number = 0; number < calls; number++) {
        memset(&payload, 0, sizeof payload);
        payload.number = number;
        check(&payload, number, corehop_switch_call(other, work, &payload), where);
        if ((number + 1) % 10000000 == 0) {
            printf("%" PRIu64 " calls so far: %s\n", number + 1, where);
            fflush(stdout);
        }
    }
}

static void expect(int status, int expected, const char *what) {
    if (status != expected) {
        printf("%s: %d, not %d\n", what, status, expected);
        exit(1);
    }
}

static void asynchronous(corehop_switch *other, uint64_t rounds, const char *where) {
    static struct payload payloads[64];
    uint64_t tickets[64], result, extra;
    for (uint64_t round = 0; round < rounds; round++) {
        for (uint64_t at = 0; at < 64; at++) {
            payloads[at].number = 64 * round + at;
            expect(corehop_switch_submit(other, work, &payloads[at], &tickets[at]), COREHOP_SWITCH_DONE, where);
        }
        expect(corehop_switch_submit(other, work, &payloads[0], &extra), COREHOP_SWITCH_FULL, where);
        for (uint64_t at = 0; at < 64; at++) {
            uint64_t from = (at * 37 + round) % 64;
            expect(corehop_switch_wait(other, tickets[from], &result), COREHOP_SWITCH_DONE, where);
            check(&payloads[from], 64 * round + from, result, where);
        }
        expect(corehop_switch_wait(other, tickets[0], &result), COREHOP_SWITCH_UNKNOWN_TICKET, where);
    }
}

int main(int count, char **words) {
    uint64_t calls = count > 1 ? strtoull(words[1], NULL, 10) : 1000;
    uint64_t polling = count > 2 ? strtoull(words[2], NULL, 10) : calls;
    for (uint32_t mechanism = 0; mechanism <= COREHOP_SWITCH_ADAPTIVE; mechanism++) {
        char where[1024];
        corehop_switch_options options;
        corehop_switch_options_init(&options);
        options.mechanism = mechanism;
        options.patience_ns = 1000000000;
        corehop_switch *other = corehop_switch_open(&options);
        corehop_switch_describe(other, where, sizeof where);
        uint64_t wanted = mechanism == COREHOP_SWITCH_POLLING ? polling : calls;
        corehop_switch_prepare(other);
        synchronous(other, wanted, where);
        asynchronous(other, wanted / 640 + 1, where);
        corehop_switch_close(other);
        printf("%" PRIu64 " calls: %s\n", wanted, where);
        fflush(stdout);
    }
    corehop_switch_options options;
    corehop_switch_options_init(&options);
    options.flags = 99;
    expect(corehop_switch_open(&options) == NULL, 1, "flags without a meaning");
    corehop_switch_close(NULL);
    return 0;
}
