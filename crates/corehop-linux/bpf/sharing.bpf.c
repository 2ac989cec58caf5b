// SPDX-License-Identifier: MIT OR Apache-2.0
/* The wake-ups between threads of some processes, their futex calls, and the system calls that they finish. See
 * src/bpf/sharing.rs. */
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

/* The futex calls of a thread at one address. */
struct word {
	u64 address;
	u32 process;
	u32 thread;
};

struct uses {
	u64 waits;
	u64 wakes;
};

struct {
	NUMBER(type, MAP_HASH);
	NUMBER(map_flags, AS_NEEDED);
	NUMBER(max_entries, 65536);
	TYPE(key, struct word);
	TYPE(value, struct uses);
} corehop_words SECTION(".maps");

/* Events that found no place. */
SHOWN_ARRAY(corehop_lost, u64, 1);
/* The handlers that a CPU is in: the interrupted thread is not the waker there. */
SHOWN_ARRAY(corehop_handlers, u64, CPUS);
/* By number: 1 where finished calls count. */
SHOWN_ARRAY(corehop_wishes, u64, NUMBERS);

/* The calls that ended on a CPU, and those of them that count. A cache line, so that no CPU waits for another's. */
struct calls {
	u64 ended;
	u64 finished;
	u64 unused[6];
};

SHOWN_ARRAY(corehop_calls, struct calls, CPUS);

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

INLINE int lose(void)
{
	u32 zero = 0;
	u64 *count = map_lookup(&corehop_lost, &zero);

	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}

TRACEPOINT(sched_waking)
int hop_waking(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	u64 by = current_thread(), one = 1, *count, *in = handlers();
	struct pair pair = { .waker = by, .woken = task->pid };

	if (!is_counted(task->tgid))
		return 0;
	if (in && *in)
		pair.waker = 0;
	count = map_lookup(&corehop_wakes, &pair);
	if (count && pair.waker) {
		/* A thread alone changes the counts of what it wakes. */
		*count += 1;
		return 0;
	}
	if (count) {
		__sync_fetch_and_add(count, 1);
		return 0;
	}
	/* Asked for a new pair alone; those of threads that are followed no more are forgotten at the next look. */
	if (pair.waker && !is_counted(by >> 32))
		return 0;
	return map_update(&corehop_wakes, &pair, &one, 0) ? lose() : 0;
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

/* System calls, from arch/x86/entry/syscalls/syscall_64.tbl. */
enum { FUTEX = 202, FUTEX_WAKE = 454, FUTEX_WAIT = 455, FUTEX_REQUEUE = 456 };
/* Commands of futex(2), from include/uapi/linux/futex.h. The bits above tell of clocks and of private words. */
#define COMMAND 0x7f
enum { WAIT = 0, WAKE = 1, REQUEUE = 3, CMP_REQUEUE = 4, WAKE_OP = 5, LOCK_PI = 6, UNLOCK_PI = 7,
       WAIT_BITSET = 9, WAKE_BITSET = 10, WAIT_REQUEUE_PI = 11, CMP_REQUEUE_PI = 12, LOCK_PI2 = 13 };
/* What a call does to those who wait for the word. */
enum { NOTHING, WAITS, WAKES };

/* struct futex_waitv */
struct waiter {
	u64 value;
	u64 address;
	u64 flags;
};

INLINE int effect(u32 command)
{
	switch (command & COMMAND) {
	case WAIT:
	case WAIT_BITSET:
	case WAIT_REQUEUE_PI:
	case LOCK_PI:
	case LOCK_PI2:
		return WAITS;
	case WAKE:
	case WAKE_BITSET:
	case WAKE_OP:
	case REQUEUE:
	case CMP_REQUEUE:
	case CMP_REQUEUE_PI:
	case UNLOCK_PI:
		return WAKES;
	}
	return NOTHING;
}

INLINE int count_use(u64 address, int effect)
{
	u64 by = current_thread();
	struct word word = { .address = address, .process = by >> 32, .thread = by };
	struct uses *found = map_lookup(&corehop_words, &word);
	struct uses first = { .waits = effect == WAITS, .wakes = effect == WAKES };

	/* A thread alone changes its own counts. */
	if (found) {
		found->waits += first.waits;
		found->wakes += first.wakes;
		return 0;
	}
	return map_update(&corehop_words, &word, &first, 0) ? lose() : 0;
}

TRACEPOINT(sys_enter)
int hop_futex(u64 *context)
{
	struct pt_regs *regs = (void *)context[0];
	u32 number = context[1];
	struct waiter first;

	/* The quickest way out: every system call of the machine comes here. */
	if (number != FUTEX && (number < FUTEX_WAKE || number > FUTEX_REQUEUE))
		return 0;
	if (!is_counted(current_thread() >> 32))
		return 0;
	if (number == FUTEX) {
		int what = effect(regs->si);

		return what ? count_use(regs->di, what) : 0;
	}
	if (number != FUTEX_REQUEUE)
		return count_use(regs->di, number == FUTEX_WAKE ? WAKES : WAITS);
	if (copy_from_user(&first, sizeof(first), (void *)regs->di))
		return 0;
	return count_use(first.address, WAKES);
}

TRACEPOINT(sys_exit)
int hop_finished(u64 *context)
{
	struct pt_regs *regs = (void *)context[0];
	u32 number = regs->orig_ax, cpu = this_cpu();
	u64 *wish = map_lookup(&corehop_wishes, &number);
	struct calls *calls = map_lookup(&corehop_calls, &cpu);

	if (!calls)
		return 0;
	/* No other thread comes between: programs at a tracepoint run without preemption. */
	calls->ended++;
	/* A call that failed did nothing. */
	if (wish && *wish && (s64)context[1] >= 0 && is_counted(current_thread() >> 32))
		calls->finished++;
	return 0;
}

LICENCE;
