// SPDX-License-Identifier: MIT OR Apache-2.0
/* The control page: what happens to registered threads. See src/bpf/control/mod.rs. */
#include "kernel.h"

/* How a thread left last. */
enum how {
	/* It was taken off its CPU (otherwise it blocked). */
	PREEMPTED = 1,
	/* Its affinity made it move while it was away. */
	PINNED = 2,
	/* It came back to another CPU. */
	MOVED = 4,
	/* It has left and was not seen to come back. */
	AWAY = 8,
	/* That it came back was not seen. */
	UNSEEN = 16,
};

/* What a thread's count of migrations begins with that the programs have yet to see. */
#define NOT_YET (~0ULL)

/* What is known of one thread, in the order of `Word`. Its words have one writer at a time. */
struct slot {
	/* The thread's number, its process's in the upper half. */
	u64 thread;
	u64 departures;
	u64 arrivals;
	u64 unseen;
	u64 preemptions;
	u64 voluntary;
	/* The kernel's count, and that at the beginning. */
	u64 migrations;
	u64 first_migrations;
	u64 affinity_moves;
	u64 cpu_changes;
	u64 out_ns;
	u64 out_cpu;
	u64 in_ns;
	u64 in_cpu;
	/* The time between being preempted and being back, summed up; the last absence; the time blocked. */
	u64 preempted_ns;
	u64 last_ns;
	u64 blocked_ns;
	/* The thread that had the CPU first after the last preemption. */
	u64 by;
	char by_name[16];
	u64 how;
	u64 ran_ns;
	/* Its own name when it ended. */
	char own_name[16];
	u64 unused[8];
};

_Static_assert(sizeof(struct slot) == 32 * sizeof(u64), "SLOT_WORDS");
_Static_assert(__builtin_offsetof(struct slot, by_name) == 18 * sizeof(u64), "Word::Name");
_Static_assert(__builtin_offsetof(struct slot, own_name) == 22 * sizeof(u64), "Word::OwnName");

#define FILTER_BYTES (1 << 16)

/* What is common to all slots. */
struct common {
	/* Absences without room in the ring. */
	u64 lost;
	/* Threads without a slot. */
	u64 unfollowed;
	/* The first slot that was never used. */
	u64 next;
	u64 unused[29];
	/* Whether a thread may be registered, by the lower bits of its number. */
	u8 filter[FILTER_BYTES];
};

_Static_assert(__builtin_offsetof(struct common, filter) == 256, "COMMON_FILTER");

/* An absence that was a preemption, a migration, or both. */
struct absence {
	u64 thread;
	u64 out_ns;
	u64 in_ns;
	u32 out_cpu;
	u32 in_cpu;
	u32 how;
	u32 by;
	char by_name[16];
	u64 ran_ns;
};

/* Whether absences are recorded: set by the loader. */
const volatile u32 records = 0;

SHOWN_ARRAY(corehop_common, struct common, 1);
SHOWN_ARRAY(corehop_slots, struct slot, 1);

/* Numbers of threads to numbers of slots. */
struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u32);
} corehop_threads SECTION(".maps");

struct {
	NUMBER(type, MAP_RING);
	NUMBER(max_entries, 4096);
} corehop_ring SECTION(".maps");
/* The reader looks by itself: no interrupt to wake it. */
#define NO_WAKE_UP 1

INLINE struct common *common(void)
{
	u32 only = 0;

	return map_lookup(&corehop_common, &only);
}

INLINE struct slot *slot_at(u32 number)
{
	return map_lookup(&corehop_slots, &number);
}

/* The slot of a thread: for one without, mostly the load of a byte. */
INLINE struct slot *slot_of(struct common *common, u32 thread)
{
	u32 *number;

	if (!common->filter[thread % FILTER_BYTES])
		return 0;
	number = map_lookup(&corehop_threads, &thread);
	return number ? slot_at(*number) : 0;
}

/* A record of the absence that has just ended, where it is one that is asked for. */
INLINE void report(struct common *common, struct slot *slot)
{
	struct absence absence;

	if (!records || !(slot->how & (PREEMPTED | MOVED)))
		return;
	absence.thread = slot->thread;
	absence.out_ns = slot->out_ns;
	absence.in_ns = slot->in_ns;
	absence.out_cpu = slot->out_cpu;
	absence.in_cpu = slot->in_cpu;
	absence.how = slot->how;
	absence.by = slot->by;
	__builtin_memcpy(absence.by_name, slot->by_name, sizeof(absence.by_name));
	absence.ran_ns = slot->ran_ns;
	if (ring_output(&corehop_ring, &absence, sizeof(absence), NO_WAKE_UP))
		__sync_fetch_and_add(&common->lost, 1);
}

/* Copies the kernel's count of the migrations of a thread. */
INLINE void copy_migrations(struct slot *slot, struct task_struct *task)
{
	slot->migrations = task->se.nr_migrations;
	if (slot->first_migrations == NOT_YET)
		slot->first_migrations = slot->migrations;
}

/* Notes the CPU that a thread has come back to. */
INLINE void came_back_to(struct slot *slot, u32 cpu)
{
	slot->in_cpu = cpu;
	if (cpu == slot->out_cpu)
		return;
	slot->how |= MOVED;
	slot->cpu_changes++;
}

/* A thread that leaves was not seen to come back: it did, to this CPU. */
INLINE void catch_up(struct common *common, struct slot *slot, u64 now)
{
	slot->unseen++;
	slot->in_ns = now;
	slot->how |= UNSEEN;
	came_back_to(slot, this_cpu());
	report(common, slot);
	slot->in_ns = 0;
}

/* The thread of the slot leaves its CPU. */
INLINE void leave(struct slot *slot, u64 now)
{
	slot->departures++;
	slot->out_ns = now;
	slot->ran_ns = slot->in_ns ? now - slot->in_ns : 0;
	slot->out_cpu = this_cpu();
}

/* It leaves because `next` takes its CPU. */
INLINE void preempt(struct slot *slot, struct task_struct *next)
{
	slot->preemptions++;
	slot->how = PREEMPTED | AWAY;
	slot->by = (u32)next->pid;
	copy_from_kernel(slot->by_name, sizeof(slot->by_name), next->comm);
}

/* The thread of the slot is back on a CPU. */
INLINE void arrive(struct common *common, struct slot *slot, u64 now)
{
	u64 away;

	slot->in_ns = now;
	slot->arrivals++;
	/* Without a time of leaving it has only begun. */
	if (!slot->out_ns) {
		slot->in_cpu = this_cpu();
		return;
	}
	away = now - slot->out_ns;
	slot->last_ns = away;
	slot->how &= ~(u64)AWAY;
	if (slot->how & PREEMPTED)
		slot->preempted_ns += away;
	else
		slot->blocked_ns += away;
	came_back_to(slot, this_cpu());
	report(common, slot);
}

INLINE int switched(bool preempted, struct task_struct *prev, struct task_struct *next, u32 state)
{
	struct common *all = common();
	struct slot *slot;
	u64 now = 0;

	if (!all)
		return 0;
	slot = slot_of(all, prev->pid);
	if (slot) {
		now = now_ns();
		copy_migrations(slot, prev);
		if (slot->how & AWAY)
			catch_up(all, slot, now);
		leave(slot, now);
		if (preempted || !state) {
			preempt(slot, next);
		} else {
			slot->voluntary++;
			slot->how = AWAY;
		}
	}
	slot = slot_of(all, next->pid);
	if (slot) {
		copy_migrations(slot, next);
		arrive(all, slot, now ? now : now_ns());
	}
	return 0;
}

TRACEPOINT(sched_switch)
int hop_sched_switch(u64 *context)
{
	return switched(context[0], (void *)context[1], (void *)context[2], context[3]);
}

/* Before Linux 5.18 the tracepoint has no fourth argument. */
TRACEPOINT(sched_switch)
int hop_switch_old(u64 *context)
{
	struct task_struct *prev = (void *)context[1];

	return switched(context[0], prev, (void *)context[2], prev->__state);
}

/* Whether the affinity of a thread has `cpu` in it; a CPU that cannot be looked up counts as allowed. */
INLINE bool may_use(struct task_struct *task, u64 cpu)
{
	const struct cpumask *mask = task->cpus_ptr;
	const unsigned long *bits = mask->bits;
	unsigned long word = 0;

	if (cpu >= FIELD_SIZE(mask->bits) * 8)
		return true;
	if (copy_from_kernel(&word, sizeof(word), bits + cpu / 64))
		return true;
	return word >> cpu % 64 & 1;
}

/* A thread is given another CPU. */
TRACEPOINT(sched_migrate_task)
int hop_sched_migrate_task(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	struct common *all = common();
	struct slot *slot = all ? slot_of(all, task->pid) : 0;

	if (slot && slot->out_ns && !may_use(task, slot->out_cpu)) {
		slot->affinity_moves++;
		slot->how |= PINNED;
	}
	return 0;
}

/* A registered thread makes another one, which becomes registered. */
TRACEPOINT(sched_process_fork)
int hop_sched_process_fork(u64 *context)
{
	struct task_struct *parent = (void *)context[0], *child = (void *)context[1];
	u32 thread = child->pid, number;
	struct common *all = common();
	struct slot *slot;

	if (!all || !slot_of(all, parent->pid))
		return 0;
	number = __sync_fetch_and_add(&all->next, 1);
	slot = slot_at(number);
	if (slot) {
		slot->thread = (u64)(u32)child->tgid << 32 | thread;
		all->filter[thread % FILTER_BYTES] = 1;
		if (!map_update(&corehop_threads, &thread, &number, 0))
			return 0;
	}
	__sync_fetch_and_add(&all->unfollowed, 1);
	return 0;
}

/* A thread starts another program and takes its process's number on. */
TRACEPOINT(sched_process_exec)
int hop_sched_process_exec(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	u32 old = context[1], thread = task->pid, number;
	u32 *slot;

	if (thread == old)
		return 0;
	slot = map_lookup(&corehop_threads, &old);
	if (slot) {
		number = *slot;
		map_update(&corehop_threads, &thread, &number, 0);
	}
	return 0;
}

/* A thread ends: its number may belong to another one soon. */
TRACEPOINT(sched_process_exit)
int hop_sched_process_exit(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	u32 thread = task->pid;
	struct common *all = common();
	struct slot *slot = all ? slot_of(all, thread) : 0;

	if (slot) {
		copy_from_kernel(slot->own_name, sizeof(slot->own_name), task->comm);
		map_delete(&corehop_threads, &thread);
	}
	return 0;
}

LICENCE;
