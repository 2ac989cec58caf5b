// SPDX-License-Identifier: MIT OR Apache-2.0
/* Who wakes whom among the threads of some processes, and how many system calls they finish. See src/bpf/sharing.rs. */
#include "kernel.h"

/* Numbers of system calls are below this. */
#define NUMBERS 512
/* The most CPUs. */
#define CPUS 4096

struct pair {
	u32 waker;
	u32 woken;
};

/* By process: those that are followed. */
struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, 16384);
	TYPE(key, u32);
	TYPE(value, u32);
} corehop_processes SECTION(".maps");

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

INLINE bool is_followed(u32 process)
{
	return map_lookup(&corehop_processes, &process) != 0;
}

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

	if (!is_followed(task->tgid))
		return 0;
	if (in && *in)
		pair.waker = 0;
	else if (!is_followed(by >> 32))
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

TRACEPOINT(irq_handler_entry)
int hop_device(u64 *context)
{
	return enters(DEVICE);
}

TRACEPOINT(irq_handler_exit)
int hop_device_end(u64 *context)
{
	return leaves(DEVICE);
}

TRACEPOINT(hrtimer_expire_entry)
int hop_timer(u64 *context)
{
	return enters(TIMER);
}

TRACEPOINT(hrtimer_expire_exit)
int hop_timer_end(u64 *context)
{
	return leaves(TIMER);
}

TRACEPOINT(timer_expire_entry)
int hop_wheel(u64 *context)
{
	return enters(WHEEL);
}

TRACEPOINT(timer_expire_exit)
int hop_wheel_end(u64 *context)
{
	return leaves(WHEEL);
}

TRACEPOINT(sys_exit)
int hop_finished(u64 *context)
{
	struct pt_regs *regs = (void *)context[0];
	u32 number = regs->orig_ax, zero = 0;
	u64 *wish = map_lookup(&corehop_wishes, &number), *count;

	/* A call that failed did nothing. */
	if (!wish || !*wish || (s64)context[1] < 0 || !is_followed(current_thread() >> 32))
		return 0;
	count = map_lookup(&corehop_finished, &zero);
	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}

TRACEPOINT(sched_process_fork)
int hop_process(u64 *context)
{
	struct task_struct *parent = (void *)context[0], *child = (void *)context[1];
	u32 from = parent->tgid, to = child->tgid, one = 1;

	if (from != to && is_followed(from))
		map_update(&corehop_processes, &to, &one, 0);
	return 0;
}

/* The number of a process that has ended may become another's. */
TRACEPOINT(sched_process_exit)
int hop_exit(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	u32 process = task->tgid;

	if (task->pid == task->tgid)
		map_delete(&corehop_processes, &process);
	return 0;
}

LICENCE;
