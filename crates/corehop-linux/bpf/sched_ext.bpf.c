// SPDX-License-Identifier: MIT OR Apache-2.0
/* The one function of the scheduler, and how the kernel's table of a scheduler is laid out: read as the
 * functions of facts.bpf.c are. */
#include "kernel.h"

/* A function that the kernel lends to schedulers. The loader puts its number in the running kernel in place
 * of this one, which no helper has. */
static int (*const idle_cpu_near)(struct task_struct *task, int previous, u64 flags, bool *is_idle) =
	(void *)0x7fffffff;

/* An idle CPU near the last one, for a thread that wakes up. Without this function the class would also put
 * the thread into that CPU's own queue, which goes before the common one: two threads that wake each other
 * would keep all others from their CPU. */
SECTION("tp_btf/select_cpu")
int select_cpu(u64 *context)
{
	bool is_idle = false;
	return idle_cpu_near((struct task_struct *)context[0], (int)context[1], context[2], &is_idle);
}

TRACEPOINT(fact)
int table_size(void *context)
{
	return TYPE_SIZE(struct bpf_struct_ops_sched_ext_ops);
}

TRACEPOINT(fact)
int functions_offset(void *context)
{
	return FIELD_OFFSET(((struct bpf_struct_ops_sched_ext_ops *)0)->data);
}

TRACEPOINT(fact)
int select_cpu_offset(void *context)
{
	return FIELD_OFFSET(((struct bpf_struct_ops_sched_ext_ops *)0)->data.select_cpu);
}

TRACEPOINT(fact)
int name_offset(void *context)
{
	return FIELD_OFFSET(((struct bpf_struct_ops_sched_ext_ops *)0)->data.name);
}

TRACEPOINT(fact)
int name_size(void *context)
{
	return FIELD_SIZE(((struct bpf_struct_ops_sched_ext_ops *)0)->data.name);
}

LICENCE;
