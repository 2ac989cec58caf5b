// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Questions about the kernel's types. None of these functions is loaded: once the loader has put in
 * the running kernel's answer, src/bpf/facts.rs reads it from the first instruction.
 */
#include "kernel.h"

TRACEPOINT(fact)
int subtracts_interrupts(void *context)
{
	return FIELD_EXISTS(((struct rq *)0)->prev_irq_time);
}

TRACEPOINT(fact)
int tells_steal(void *context)
{
	return FIELD_EXISTS(((struct rq *)0)->prev_steal_time_rq);
}

LICENCE;
