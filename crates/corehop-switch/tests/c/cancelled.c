/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A thread that is cancelled while its call runs on the other core goes away only after the call has ended, as the call
 * uses its stack.
 */
#include <corehop_switch.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

static atomic_int begun, ended, returned;

static void pause_ms(long ms)
{
    struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

static uint64_t slow(void *word)
{
    atomic_store(&begun, 1);
    pause_ms(60);
    ++*(uint64_t *)word;
    atomic_store(&ended, 1);
    return 0;
}

static void *caller(void *mechanism)
{
    uint64_t word = 0;
    corehop_switch_options options;
    corehop_switch_options_init(&options);
    options.mechanism = *(uint32_t *)mechanism;
    options.patience_ns = 5000000;
    corehop_switch *self = corehop_switch_open(&options);
    if (corehop_switch_mechanism(self) == options.mechanism) {
        corehop_switch_call(self, slow, &word);
        atomic_store(&returned, 1);
    } else {
        atomic_store(&begun, 2);
    }
    corehop_switch_close(self);
    pthread_testcancel();
    return NULL;
}

int main(void)
{
    for (uint32_t mechanism = COREHOP_SWITCH_HAND_OFF; mechanism <= COREHOP_SWITCH_ADAPTIVE; ++mechanism) {
        pthread_t thread;
        atomic_store(&begun, 0);
        atomic_store(&ended, 0);
        atomic_store(&returned, 0);
        pthread_create(&thread, NULL, caller, &mechanism);
        while (!atomic_load(&begun))
            pause_ms(1);
        if (atomic_load(&begun) == 2) {
            printf("%u: skipped: not on this host\n", mechanism);
            pthread_join(thread, NULL);
            continue;
        }
        pause_ms(30);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
        if (!atomic_load(&ended) || !atomic_load(&returned)) {
            printf("%u: the caller went away in the middle of its call\n", mechanism);
            return 1;
        }
    }
    return 0;
}
