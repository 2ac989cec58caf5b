/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A table of processes in which those that its members start are entered, and those that end are not any more. */
#pragma once
#include "kernel.h"

/* FOLLOWED: the children are counted, and not the process itself. */
#define FOLLOWED 1
#define COUNTED 2
struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, 16384);
	TYPE(key, u32);
	TYPE(value, u32);
} corehop_processes SECTION(".maps");

INLINE bool is_counted(u32 process)
{
	u32 *how = map_lookup(&corehop_processes, &process);

	return how && *how == COUNTED;
}

TRACEPOINT(sched_process_fork)
int hop_process(u64 *context)
{
	struct task_struct *parent = (void *)context[0], *child = (void *)context[1];
	u32 from = parent->tgid, to = child->tgid, how = COUNTED;

	if (from != to && map_lookup(&corehop_processes, &from))
		map_update(&corehop_processes, &to, &how, 0);
	return 0;
}

/* The number of a process that has ended may become another's. Its last thread need not be its first. */
TRACEPOINT(sched_process_exit)
int hop_exit(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	u32 process = task->tgid;

	if (!task->signal->live.counter)
		map_delete(&corehop_processes, &process);
	return 0;
}
