// SPDX-License-Identifier: MIT OR Apache-2.0
/* The wake-ups between threads of some processes, and the system calls that they finish. See src/bpf/sharing.rs. */
#include "processes.h"

/* Numbers of system calls are below this. */
#define NUMBERS 512
/* The most CPUs. */
#define CPUS 4096

struct pair {
	u32 waker;
	u32 woken;
};

/* Wakers in interrupts have the number 0. */
struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, 131072);
	TYPE(key, struct pair);
	TYPE(value, u64);
} corehop_wakes SECTION(".maps");

/* Pairs that found no place. */
SHOWN_ARRAY(corehop_lost, u64, 1);
/* The handlers that a CPU is in: the interrupted thread is not the waker there. */
SHOWN_ARRAY(corehop_handlers, u64, CPUS);
/* By number: 1 where finished calls count. */
SHOWN_ARRAY(corehop_wishes, u64, NUMBERS);
SHOWN_ARRAY(corehop_finished, u64, 1);

INLINE u64 *handlers(void)
{
	u32 cpu = this_cpu();

	return map_lookup(&corehop_handlers, &cpu);
}

/* One bit for each kind: a handler whose end was missed is forgotten at the next end of its kind. */
enum { DEVICE = 1, TIMER = 2, WHEEL = 4 };

INLINE int enters(u64 kind)
{
	u64 *all = handlers();

	if (all)
		__sync_fetch_and_or(all, kind);
	return 0;
}

INLINE int leaves(u64 kind)
{
	u64 *all = handlers();

	if (all)
		__sync_fetch_and_and(all, ~kind);
	return 0;
}

TRACEPOINT(sched_waking)
int hop_waking(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	u64 by = current_thread(), one = 1, *count, *in = handlers();
	struct pair pair = { .waker = by, .woken = task->pid };
	u32 zero = 0;

	if (!is_counted(task->tgid))
		return 0;
	if (in && *in)
		pair.waker = 0;
	else if (!is_counted(by >> 32))
		return 0;
	count = map_lookup(&corehop_wakes, &pair);
	if (count) {
		__sync_fetch_and_add(count, 1);
		return 0;
	}
	if (map_update(&corehop_wakes, &pair, &one, 0)) {
		count = map_lookup(&corehop_lost, &zero);
		if (count)
			__sync_fetch_and_add(count, 1);
	}
	return 0;
}

/* The two programs around a kind of handlers. */
#define HANDLER(program, kind, begin, end)                                                         \
	TRACEPOINT(begin)                                                                          \
	int program(u64 *context)                                                                  \
	{                                                                                          \
		return enters(kind);                                                               \
	}                                                                                          \
	TRACEPOINT(end)                                                                            \
	int program##_end(u64 *context)                                                            \
	{                                                                                          \
		return leaves(kind);                                                               \
	}

HANDLER(hop_device, DEVICE, irq_handler_entry, irq_handler_exit)
HANDLER(hop_timer, TIMER, hrtimer_expire_entry, hrtimer_expire_exit)
HANDLER(hop_wheel, WHEEL, timer_expire_entry, timer_expire_exit)

TRACEPOINT(sys_exit)
int hop_finished(u64 *context)
{
	struct pt_regs *regs = (void *)context[0];
	u32 number = regs->orig_ax, zero = 0;
	u64 *wish = map_lookup(&corehop_wishes, &number), *count;

	/* A call that failed did nothing. */
	if (!wish || !*wish || (s64)context[1] < 0 || !is_counted(current_thread() >> 32))
		return 0;
	count = map_lookup(&corehop_finished, &zero);
	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}

LICENCE;
