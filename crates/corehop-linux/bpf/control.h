/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The memory of the control page: slots of threads, turns on CPUs, and records of absences. */
#pragma once
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

/* What keeps a thread off its CPU that could run, and is not another thread; in the order of `Bar`. */
enum bar {
	NO_BAR,
	/* The CPU time that its group, or one above, may use in a period is used up. */
	QUOTA,
	/* The budget of SCHED_DEADLINE is used up, or given up for this period. */
	BUDGET,
	/* Real-time threads, or those of its group, have used their share of the CPU. */
	REALTIME,
	/* Its group is frozen. */
	FROZEN,
	/* A signal or a debugger has stopped it. */
	STOPPED,
};
#define BARS STOPPED

/* What is known of one thread, in the order of `Word`: first what each of its switches needs, in two cache lines. */
struct slot {
	/* The thread's number, its process's in the upper half. */
	u64 thread;
	u64 departures;
	u64 voluntary;
	u64 preemptions;
	u64 out_ns;
	u64 in_ns;
	u64 out_cpu;
	u64 how;
	u64 ran_ns;
	/* The kernel's count. */
	u64 migrations;
	/* By the kernel's account, when it left last: the time it had a CPU, and the time it waited for one. */
	u64 cpu_ns;
	u64 waited_ns;
	/* The time it had a CPU that registered threads waited for, for each of them. */
	u64 held_ns;
	/* The time between being preempted and being back, summed up. */
	u64 preempted_ns;
	/* Of the preemptions and of that time, those that are not recorded one by one. */
	u64 brief;
	u64 brief_ns;
	/* The thread that had the CPU first after the last preemption. */
	u64 by;
	char by_name[16];
	u64 first_migrations;
	u64 cpu_changes;
	u64 unseen;
	u64 affinity_moves;
	/* For the thread itself: not where threads are followed. The last absence; the time blocked. */
	u64 arrivals;
	u64 in_cpu;
	u64 last_ns;
	u64 blocked_ns;
	/* Its own name when it ended. */
	char own_name[16];
	/* Its times before it was registered. */
	u64 first_cpu_ns;
	u64 first_waited_ns;
	/* Whether it has ended. */
	u64 ended;
	/* The time that each bar kept it off its CPU, summed up; QUOTA first. */
	u64 barred_ns[BARS];
	/* The bar that it left its CPU behind, and when that one is lifted, on the queue's clock. */
	u64 bar;
	u64 bar_until;
	/* The time that its group was throttled on the CPU that it left, until then. */
	u64 quota_ns;
};
#define FOR_EVER (~0ULL)

_Static_assert(sizeof(struct slot) == 40 * sizeof(u64), "SLOT_WORDS");
_Static_assert(__builtin_offsetof(struct slot, by_name) == 17 * sizeof(u64), "Word::Name");
_Static_assert(__builtin_offsetof(struct slot, ended) == 31 * sizeof(u64), "Word::Ended");

/* A shorter preemption that ends on the CPU where it began is counted only: some make 100,000 a second. */
#define BRIEF_NS 10000

/* Places of threads, by the lower bits of their numbers. */
#define PLACES (1 << 15)

/* A thread and the number of its slot plus one; both are 0 where none with these lower bits was ever registered. */
struct place {
	u32 thread;
	u32 slot;
};
/* The thread of a place whose own has ended; others with these lower bits may be registered. */
#define ENDED (~0U)

/* What is common to all slots. */
struct common {
	/* Absences without room in the ring. */
	u64 lost;
	/* Threads without a slot. */
	u64 unfollowed;
	/* The first slot that was never used. */
	u64 next;
	u64 unused[29];
	struct place places[PLACES];
};

_Static_assert(__builtin_offsetof(struct common, places) == 256, "COMMON_PLACES");

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
	/* The time that the thread had a CPU until it left, since it was registered. */
	u64 cpu_ns;
};

SHOWN_ARRAY(corehop_common, struct common, 1);
SHOWN_ARRAY(corehop_slots, struct slot, 1);

/* Numbers of threads to numbers of slots. */
struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u32);
} corehop_threads SECTION(".maps");

struct name {
	char text[16];
};

/* A turn on a CPU, from `since` on, by the clock of its run queue. */
struct turn {
	u64 since;
	/* The slot of the thread, or NO_SLOT; IDLE of the idle thread. */
	u64 slot;
	/* Its name, where it has no slot. */
	struct name name;
};
#define NO_SLOT (~0U)
#define IDLE (~0ULL)

/* The last turns on a CPU: as many as a wait is looked up in. */
#define TURNS 64

struct cpu {
	/* The number of turns so far; the last one is before that. */
	u64 next;
	/* The time that registered threads waited for it while it was idle: it had to wake up. */
	u64 idle_ns;
	/* The queue of the group that a followed thread got this CPU from last; the time that this group was throttled on
	 * this CPU until then, summed up, and from when to when it was the last time. */
	u64 group;
	u64 quota_ns;
	u64 quota_from;
	u64 quota_to;
	/* The time that registered threads had it. */
	u64 ran_ns;
	u64 unused;
	struct turn turns[TURNS];
};

_Static_assert(sizeof(struct cpu) == (8 + 4 * TURNS) * sizeof(u64), "CPU_WORDS");

SHOWN_ARRAY(corehop_cpus, struct cpu, 1);

/* Names of other threads to the time they had CPUs that registered threads waited for. */
struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, 1);
	TYPE(key, struct name);
	TYPE(value, u64);
} corehop_others SECTION(".maps");

struct {
	NUMBER(type, MAP_RING);
	NUMBER(max_entries, 4096);
} corehop_ring SECTION(".maps");
/* The reader looks by itself: no interrupt to wake it. */
#define NO_WAKE_UP 1

/* The state of a thread that leaves for good. */
#define TASK_DEAD 0x80

/* Code for what is rare lies elsewhere, so that what is frequent takes few lines of the cache. */
#define RARE static __attribute__((noinline))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

INLINE struct common *common(void)
{
	u32 only = 0;

	return map_lookup(&corehop_common, &only);
}

INLINE struct slot *slot_at(u32 number)
{
	return map_lookup(&corehop_slots, &number);
}
