/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The causes that keep a runnable thread off its CPU and are not another thread. */
#pragma once
#include "control.h"

/* The time that a group was throttled on the CPU of this queue, by the group itself or by one above; 0 where the kernel
 * does not count it (before Linux 6.6). */
INLINE u64 throttled_ns(struct cfs_rq *queue, u64 clock)
{
	u64 since;

	if (!FIELD_EXISTS(queue->throttled_clock_self_time))
		return 0;
	since = queue->throttled_clock_self;
	return queue->throttled_clock_self_time + (since && since < clock ? clock - since : 0);
}

/* When a timer expires, on the clock of a run queue. */
INLINE u64 expires(struct hrtimer *timer, u64 clock)
{
	s64 left = timer->_softexpires - (s64)now_ns();

	return left > 0 ? clock + left : clock;
}

INLINE void bar(struct slot *slot, enum bar by, u64 until)
{
	slot->bar = by;
	slot->bar_until = until;
}

/* When the period begins in which the thread gets a budget again, by which it may run. */
INLINE void bar_deadline(struct slot *slot, struct task_struct *task)
{
	if (task->dl.runtime <= 0)
		bar(slot, BUDGET, task->dl.deadline - task->dl.dl_deadline + task->dl.dl_period);
}

/* Groups of real-time threads below each other. */
#define RT_LEVELS 4

/* The period timer takes one runtime off the time that was used, each period, until less than one is left. */
INLINE void bar_realtime(struct slot *slot, struct task_struct *task, u64 now)
{
	struct sched_rt_entity *above;
	struct rt_rq *queue;
	u64 until, runtime;

	if (!FIELD_EXISTS(task->rt.rt_rq))
		return;
	queue = task->rt.rt_rq;
	above = task->rt.parent;
	for (u32 level = 0; level < RT_LEVELS; level++) {
		if (!queue)
			return;
		if (queue->rt_throttled) {
			until = expires(&queue->tg->rt_bandwidth.rt_period_timer, now);
			runtime = queue->rt_runtime;
			if (runtime && queue->rt_time >= runtime)
				until += (queue->rt_time / runtime - 1) * queue->tg->rt_bandwidth.rt_period;
			bar(slot, REALTIME, until);
			return;
		}
		if (!above)
			return;
		queue = above->rt_rq;
		above = above->parent;
	}
}

/* Where the kernel counts how long a group is throttled, the count says at the end for how long the thread was. */
INLINE void bar_group(struct slot *slot, struct task_struct *task, u64 now)
{
	struct cfs_rq *queue = task->se.cfs_rq;

	if (!FIELD_EXISTS(queue->throttle_count) || !queue->throttle_count)
		return;
	if (FIELD_EXISTS(queue->throttled_clock_self_time) || !queue->runtime_enabled)
		bar(slot, QUOTA, FOR_EVER);
	else
		bar(slot, QUOTA, expires(&queue->tg->cfs_bandwidth.period_timer, now));
}

#define TASK_INTERRUPTIBLE 0x1
/* Stopped by a signal, or by a debugger. */
#define TASK_STOPPED_OR_TRACED 0xc
/* Since Linux 6.1: frozen by a group of version 1. */
#define TASK_FROZEN 0x8000
/* Asked to freeze by a group of version 2. */
#define JOBCTL_TRAP_FREEZE (1UL << 23)
#define SCHED_FIFO 1
#define SCHED_RR 2
#define SCHED_DEADLINE 6

/* Notes what keeps a thread off its CPU that leaves, where that is not another thread. */
INLINE void note_bar(struct slot *slot, struct task_struct *task, u32 state, u64 now)
{
	slot->bar = NO_BAR;
	slot->quota_ns = throttled_ns(task->se.cfs_rq, now);
	if (!(slot->how & PREEMPTED)) {
		if (state & TASK_FROZEN || (state & TASK_INTERRUPTIBLE && task->jobctl & JOBCTL_TRAP_FREEZE))
			bar(slot, FROZEN, FOR_EVER);
		else if (state & TASK_STOPPED_OR_TRACED)
			bar(slot, STOPPED, FOR_EVER);
	} else if (task->policy == SCHED_DEADLINE) {
		bar_deadline(slot, task);
	} else if (task->policy == SCHED_FIFO || task->policy == SCHED_RR) {
		bar_realtime(slot, task, now);
	} else {
		bar_group(slot, task, now);
	}
}
