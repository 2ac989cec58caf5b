/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Fast core switching: runs a function on another core and hands its result back.
 *
 * A switch belongs to one thread at a time. A function runs on a partner thread, so that thread locals, errno, the
 * thread's number, its signal mask and its credentials are the partner's. It returns: no longjmp out of it, no
 * pthread_exit. If it forks, it may exec or _exit in the child; a child in which it returns ends with status 127. Partners
 * have the usual policy, also where the caller is real-time. pthread_cancel takes effect before or after a call. Every
 * wait has a bound: a call that the other core has not taken within `patience_ns` runs on the caller's thread; one that
 * has been taken runs there to its end. Each call runs once. (A process that forbids itself the system call membarrier after
 * corehop_switch_open waits until the other core comes.)
 */
#ifndef COREHOP_SWITCH_H
#define COREHOP_SWITCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The version of this interface: libcorehop_switch.so.0. */
#define COREHOP_SWITCH_ABI 0

/** Cores are bits in 16 words: bit n of word m is core 64 m + n, as in cpu_set_t. */
#define COREHOP_SWITCH_WORDS 16

/** A switch. */
typedef struct corehop_switch corehop_switch;

/** A function that can run on another core. */
typedef uint64_t (*corehop_switch_function)(void *argument);

/** Ways to another core (Strong et al. 2009, table 4). */
enum corehop_switch_mechanism {
    COREHOP_SWITCH_LOCAL = 0,    /**< no switch: the function runs on the caller's core */
    COREHOP_SWITCH_AFFINITY = 1, /**< V1: sched_setaffinity, there and back */
    COREHOP_SWITCH_HAND_OFF = 2, /**< V2: a partner that is parked (futex) */
    COREHOP_SWITCH_LINKED = 3,   /**< V3: the same, wake and sleep in one entry (io_uring) */
    COREHOP_SWITCH_POLLING = 4,  /**< V4: a partner that polls, and costs a core */
    COREHOP_SWITCH_ADAPTIVE = 5, /**< V5: a partner that polls as long as it paid lately, then sleeps */
};

/** V5 or V2, by the cost of some empty calls. */
#define COREHOP_SWITCH_CHOOSE UINT32_MAX

/** Settings of the policy among several cores (Strong et al. 2009, section 9.2). */
enum corehop_switch_flags {
    COREHOP_SWITCH_WORK_CONSERVING = 1, /**< WC: not to a busy core if the caller's would idle */
    COREHOP_SWITCH_AFFINITY_FIRST = 2,  /**< AF: to the core of the last switch, instead of taking turns */
    COREHOP_SWITCH_PREFER_AFFINITY = 4, /**< PA: with both, to that core even if it is busy */
    COREHOP_SWITCH_STATIC_BINDING = 8,  /**< always the same pairs of cores */
};

/** Answers. */
enum corehop_switch_status {
    COREHOP_SWITCH_DONE = 0,
    COREHOP_SWITCH_FULL = 1,           /**< 64 calls are outstanding: wait for one */
    COREHOP_SWITCH_UNKNOWN_TICKET = 2, /**< not outstanding on this switch */
    COREHOP_SWITCH_FORKED = 3,         /**< the call was running when the process was forked: the parent has it */
    COREHOP_SWITCH_INVALID = 4,        /**< no switch, or a flag without a meaning */
};

/** Wishes for a switch. Fill it with corehop_switch_options_init, then change members. */
typedef struct corehop_switch_options {
    size_t size;                              /**< of this structure */
    uint64_t os_cores[COREHOP_SWITCH_WORDS];  /**< at most 64; none: the last usable one that the caller is not on */
    uint32_t mechanism;                       /**< or COREHOP_SWITCH_CHOOSE */
    uint32_t flags;
    uint64_t spin_limit_ns;                   /**< UINT64_MAX: 0 with one usable CPU, 5 us with two, else 50 us */
    uint64_t patience_ns;
} corehop_switch_options;

/** The usual wishes. */
void corehop_switch_options_init(corehop_switch_options *options);

/** Starts a switch; null options are the usual ones. Null if a wish has no meaning. Where the host cannot do what is
 *  wished, the switch does what it can, down to running calls on the caller's core; corehop_switch_describe says so. */
corehop_switch *corehop_switch_open(const corehop_switch_options *options);

/** Runs a function on another core and returns its result. */
uint64_t corehop_switch_call(corehop_switch *self, corehop_switch_function function, void *argument);

/** Runs a function on one of these OS cores, by these flags. */
int corehop_switch_call_on(corehop_switch *self, const uint64_t cores[COREHOP_SWITCH_WORDS], uint32_t flags,
                           corehop_switch_function function, void *argument, uint64_t *result);

/** Begins a function on another core. Up to 64 may be outstanding. */
int corehop_switch_submit(corehop_switch *self, corehop_switch_function function, void *argument, uint64_t *ticket);

/** Waits for the result of a function that was begun; the order is free. */
int corehop_switch_wait(corehop_switch *self, uint64_t ticket, uint64_t *result);

/** Wakes the partner ahead of need: the next call, if it comes soon, finds it polling. */
void corehop_switch_prepare(const corehop_switch *self);

/** The mechanism: one of enum corehop_switch_mechanism. */
uint32_t corehop_switch_mechanism(const corehop_switch *self);

/** Writes the mechanism, its measured costs and the wishes that were not met. Returns the length of the text, which is
 *  cut at `size`. */
size_t corehop_switch_describe(const corehop_switch *self, char *text, size_t size);

/** Carries out what is outstanding, ends the partners and frees the switch. */
void corehop_switch_close(corehop_switch *self);

#ifdef __cplusplus
}
#endif
#endif
