// SPDX-License-Identifier: MIT OR Apache-2.0
/* How the kernel's table of a scheduler is laid out: read as the functions of facts.bpf.c are. */
#include "kernel.h"

TRACEPOINT(fact)
int table_size(void *context)
{
	return TYPE_SIZE(struct bpf_struct_ops_sched_ext_ops);
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
