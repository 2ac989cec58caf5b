// SPDX-License-Identifier: MIT OR Apache-2.0
/* Per-CPU counts of interrupts, switches and steal. See src/bpf/interrupts.rs. */
#include "kernel.h"

/* In the order of `Counter`, on two cache lines: some processors fetch lines in pairs. */
struct counts {
	u64 local_timer;
	u64 reschedule;
	u64 call_function;
	u64 device_irqs;
	u64 softirqs;
	u64 nmis;
	u64 other_irqs;
	u64 switches;
	u64 steal_ns;
	/* The thread whose turn it is: its number plus one, 1 for the idle thread. */
	u64 occupant;
	u64 unused[6];
};

_Static_assert(sizeof(struct counts) == 16 * sizeof(u64), "STRIDE");

/* A value for each CPU. */
SHOWN_ARRAY(corehop_irqs, struct counts, 1);

INLINE struct counts *counts_here(void)
{
	u32 cpu = this_cpu();

	return map_lookup(&corehop_irqs, &cpu);
}

/* Atomic: another program may interrupt this one and count in the same word. */
#define ADD_ONE(word) __sync_fetch_and_add(&(word), 1)

#define COUNT_IF(tracepoint, counter, condition)                                                   \
	TRACEPOINT(tracepoint)                                                                     \
	int hop_##tracepoint(u64 *context)                                                         \
	{                                                                                          \
		struct counts *here;                                                               \
                                                                                                   \
		if (!(condition))                                                                  \
			return 0;                                                                  \
		here = counts_here();                                                              \
		if (here)                                                                          \
			ADD_ONE(here->counter);                                                    \
		return 0;                                                                          \
	}
#define COUNT(tracepoint, counter) COUNT_IF(tracepoint, counter, true)

COUNT(local_timer_entry, local_timer)
COUNT(reschedule_entry, reschedule)
COUNT(call_function_entry, call_function)
COUNT(call_function_single_entry, call_function)
COUNT(irq_handler_entry, device_irqs)
COUNT(softirq_entry, softirqs)
/* Passed once per handler asked; the third argument is how many events that one has handled. */
COUNT_IF(nmi_handler, nmis, context[2] != 0)
COUNT(irq_work_entry, other_irqs)
COUNT(thermal_apic_entry, other_irqs)

TRACEPOINT(sched_switch)
int hop_sched_switch(u64 *context)
{
	struct task_struct *next = (void *)context[2];
	struct counts *here = counts_here();

	if (here) {
		ADD_ONE(here->switches);
		here->occupant = (u64)next->pid + 1;
	}
	return 0;
}

/* The steal time of this CPU's run queue. The kernel catches loads that fault. */
TRACEPOINT(local_timer_exit)
int hop_local_timer_exit(u64 *context)
{
	u64 steal = current_task()->se.cfs_rq->rq->prev_steal_time_rq;
	struct counts *here;

	if (!steal)
		return 0;
	here = counts_here();
	if (here)
		here->steal_ns = steal;
	return 0;
}

/* What running a program costs. */
TRACEPOINT(sched_switch)
int hop_empty(u64 *context)
{
	return 0;
}

LICENCE;
