// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Times at which each CPU passes tracepoints. See src/bpf/events.rs.
 *
 * A program reads the clock first and last, so that its own time can be left out.
 */
#include "kernel.h"

/* How many events a CPU has room for: set by the loader. */
const volatile u32 places = 0;

/* In cache lines of its own. */
struct head {
	u64 count;
	u64 unused[15];
};

struct event {
	u64 begin_ns;
	/* The kind plus one, and the detail in the upper half. */
	u64 what;
	u64 argument;
	u64 end_ns;
};

_Static_assert(sizeof(struct head) == 16 * sizeof(u64), "HEAD_WORDS");
_Static_assert(sizeof(struct event) == 1 << 5, "EVENT_SHIFT");

/* A value for each CPU. */
SHOWN_ARRAY(heads, struct head, 1);
/* `places` values for each CPU. */
SHOWN_ARRAY(events, struct event, 1);

/* A place for an event that begins now. Atomic: interrupts come between. */
INLINE struct event *place(void)
{
	u64 begin_ns = now_ns();
	u32 cpu = this_cpu();
	struct head *head = map_lookup(&heads, &cpu);
	struct event *event;
	u64 taken;
	u32 at;

	if (!head)
		return 0;
	taken = __sync_fetch_and_add(&head->count, 1);
	if (taken >= places)
		return 0;
	at = cpu * places + (u32)taken;
	event = map_lookup(&events, &at);
	if (event)
		event->begin_ns = begin_ns;
	return event;
}

INLINE void fill(struct event *event, u32 kind, u32 detail, u64 argument)
{
	event->what = (u64)detail << 32 | kind;
	event->argument = argument;
	event->end_ns = now_ns();
}

INLINE u64 thread(struct task_struct *task)
{
	return (u64)(u32)task->tgid << 32 | (u32)task->pid;
}

/* A program that notes an event of this kind; numbers are those of `Kind` plus one. */
#define EVENT(tracepoint, kind, detail, argument) NAMED(hop_##tracepoint, tracepoint, kind, detail, argument)
#define NAMED(name, tracepoint, kind, detail, argument)                                            \
	TRACEPOINT(tracepoint)                                                                     \
	int name(u64 *context)                                                                     \
	{                                                                                          \
		struct event *event = place();                                                     \
                                                                                                   \
		if (event)                                                                         \
			fill(event, kind, detail, argument);                                       \
		return 0;                                                                          \
	}
#define TIMER ((struct hrtimer *)context[0])

EVENT(sched_entry_tp, 1, context[0], current_thread())
EVENT(sched_switch, 2, 0, thread((struct task_struct *)context[2]))
EVENT(sched_exit_tp, 3, context[0], current_thread())
EVENT(local_timer_entry, 4, 0, 0)
EVENT(local_timer_exit, 5, 0, 0)
EVENT(hrtimer_expire_entry, 6, (u64)TIMER->function, TIMER->_softexpires)
EVENT(hrtimer_expire_exit, 7, 0, 0)
EVENT(sched_waking, 8, 0, thread((struct task_struct *)context[0]))
EVENT(ipi_send_cpu, 9, context[0], context[2])
EVENT(reschedule_entry, 10, 0, 0)
EVENT(reschedule_exit, 11, 0, 0)
EVENT(call_function_single_entry, 12, 0, 0)
EVENT(call_function_single_exit, 13, 0, 0)
EVENT(irq_handler_entry, 14, 0, 0)
EVENT(irq_handler_exit, 15, 0, 0)
EVENT(softirq_raise, 16, context[0], 0)
EVENT(softirq_entry, 17, context[0], 0)
EVENT(softirq_exit, 18, context[0], 0)

/* Two programs at one tracepoint: what lies between them is the way from one to the next. */
NAMED(hop_first, sched_switch, 2, 0, 0)
NAMED(hop_second, sched_switch, 3, 0, 0)

LICENCE;
