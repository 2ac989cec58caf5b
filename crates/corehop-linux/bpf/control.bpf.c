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

/* The number of the slot of a thread, or NO_SLOT: mostly one load, of a thread without as of one with. */
INLINE u32 number_of(struct common *common, u32 thread)
{
	struct place *place = &common->places[thread % PLACES];
	u32 *number;

	if (LIKELY(place->thread == thread))
		return place->slot - 1;
	if (LIKELY(!place->thread))
		return NO_SLOT;
	number = map_lookup(&corehop_threads, &thread);
	return number ? *number : NO_SLOT;
}

INLINE struct slot *slot_of(struct common *common, u32 thread)
{
	return slot_at(number_of(common, thread));
}

/* Gives a thread its slot; whether that worked. */
INLINE bool place(struct common *common, u32 thread, u32 number)
{
	struct place *place = &common->places[thread % PLACES];

	if (map_update(&corehop_threads, &thread, &number, 0))
		return false;
	place->slot = number + 1;
	place->thread = thread;
	return true;
}

/* A thread ends: its number may belong to another one soon. */
INLINE void displace(struct common *common, u32 thread)
{
	struct place *place = &common->places[thread % PLACES];

	if (place->thread == thread)
		place->thread = ENDED;
	map_delete(&corehop_threads, &thread);
}

INLINE struct cpu *cpu_at(u32 number)
{
	return map_lookup(&corehop_cpus, &number);
}

/* The clock of the run queue that a thread is on, or of the last one; 0 where the kernel does not show it. */
INLINE u64 queue_clock(struct task_struct *task)
{
	return FIELD_EXISTS(task->se.cfs_rq) ? task->se.cfs_rq->rq->clock : 0;
}

/* Notes whose turn it is on a CPU. */
INLINE void begin_turn(struct cpu *cpu, u64 since, struct task_struct *next, u32 number)
{
	struct turn *turn = &cpu->turns[cpu->next % TURNS];

	turn->since = since;
	turn->slot = next->pid ? number : IDLE;
	if (next->pid && number == NO_SLOT)
		__builtin_memcpy(turn->name.text, next->comm, sizeof(turn->name));
	cpu->next++;
}

/* Books a time of waiting for a CPU to the thread whose turn it was. */
INLINE void book(struct cpu *cpu, struct turn *turn, u64 waited_ns)
{
	struct slot *slot;
	u64 *booked;

	if (turn->slot == IDLE) {
		__sync_fetch_and_add(&cpu->idle_ns, waited_ns);
	} else if (turn->slot != NO_SLOT) {
		slot = slot_at(turn->slot);
		if (slot)
			__sync_fetch_and_add(&slot->held_ns, waited_ns);
	} else {
		booked = map_lookup(&corehop_others, &turn->name);
		if (booked)
			__sync_fetch_and_add(booked, waited_ns);
		else
			map_update(&corehop_others, &turn->name, &waited_ns, 0);
	}
}

/* Books the wait for a CPU between two times on its queue's clock, last turn first, as far as turns are known. */
RARE int book_turns(struct cpu *cpu, u64 from, u64 to)
{
	u64 number = cpu->next, begin;
	struct turn *turn;

	for (u32 back = 0; back < TURNS && from < to; back++) {
		turn = &cpu->turns[--number % TURNS];
		if (!turn->since)
			break;
		begin = turn->since > from ? turn->since : from;
		if (begin < to) {
			book(cpu, turn, to - begin);
			to = begin;
		}
	}
	return 0;
}

/* The same, where mostly the last turn has begun before. */
INLINE void book_wait(struct cpu *cpu, u64 from, u64 to)
{
	struct turn *turn = &cpu->turns[(cpu->next - 1) % TURNS];
	struct slot *slot;

	if (from >= to)
		return;
	if (turn->slot < NO_SLOT && turn->since && turn->since <= from) {
		slot = slot_at(turn->slot);
		if (slot)
			__sync_fetch_and_add(&slot->held_ns, to - from);
	} else {
		book_turns(cpu, from, to);
	}
}

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

/* Notes the last time that the group of a thread was throttled on a CPU. Whether it was known for this group. */
INLINE bool note_quota(struct cpu *cpu, struct task_struct *task, u64 now)
{
	struct cfs_rq *queue = task->se.cfs_rq;
	u64 all = throttled_ns(queue, now);
	bool known = cpu->group == (u64)queue;

	if (!known)
		cpu->quota_from = cpu->quota_to = 0;
	else if (all > cpu->quota_ns)
		cpu->quota_from = now - (all - cpu->quota_ns), cpu->quota_to = now;
	cpu->group = (u64)queue;
	cpu->quota_ns = all;
	return known;
}

/* The part of a wait for a CPU in which its quota kept a thread off it. Of one that was there when the group was
 * throttled the kernel's count says it; one that woke up since was off for as long as it was awake meanwhile. */
INLINE u64 barred_by_quota(struct cpu *cpu, struct slot *slot, struct task_struct *task, u64 from, u64 now)
{
	bool known = note_quota(cpu, task, now), stayed = slot->out_cpu == this_cpu();
	u64 begin = cpu->quota_from > from ? cpu->quota_from : from;

	if (stayed && slot->out_ns && (slot->how & PREEMPTED || !known))
		return cpu->quota_ns > slot->quota_ns ? cpu->quota_ns - slot->quota_ns : 0;
	return cpu->quota_to > begin ? cpu->quota_to - begin : 0;
}

INLINE u64 less(u64 one, u64 other)
{
	return one < other ? one : other;
}

/* Books the wait of a thread for a CPU: what kept it off is booked to that, and the rest to who had the CPU. */
INLINE void book_wait_of(struct cpu *cpu, struct slot *slot, u64 by_quota, u64 from, u64 now)
{
	u64 by = slot->bar, ns = 0;

	if (from >= now)
		return;
	if (by == BUDGET || by == REALTIME || (by == QUOTA && slot->bar_until != FOR_EVER)) {
		ns = slot->bar_until > from ? less(slot->bar_until - from, now - from) : 0;
	} else if (by_quota) {
		by = QUOTA;
		ns = less(by_quota, now - from);
	}
	if (!ns) {
		book_wait(cpu, from, now);
		return;
	}
	if (by == BUDGET)
		slot->barred_ns[BUDGET - 1] += ns;
	else if (by == REALTIME)
		slot->barred_ns[REALTIME - 1] += ns;
	else
		slot->barred_ns[QUOTA - 1] += ns;
	/* One that waits already when its group is throttled gets the CPU soon after that has ended. */
	if (slot->bar == NO_BAR)
		book_wait(cpu, from, now - ns);
	else
		book_wait(cpu, from + ns, now);
}

/* A thread that was frozen or stopped is back, and was queued for its CPU at that time. */
INLINE void lift(struct slot *slot, u64 queued, u64 now)
{
	u64 until = queued > slot->out_ns && queued < now ? queued : now, ns;

	ns = until > slot->out_ns ? until - slot->out_ns : 0;
	if (slot->bar == FROZEN)
		slot->barred_ns[FROZEN - 1] += ns;
	else if (slot->bar == STOPPED)
		slot->barred_ns[STOPPED - 1] += ns;
}

/* A record of the absence that has just ended, by CLOCK_MONOTONIC. */
RARE int report(struct common *common, struct slot *slot)
{
	u64 since = now_ns() - slot->in_ns;
	struct absence absence = {
		.thread = slot->thread,
		.out_ns = slot->out_ns + since,
		.in_ns = slot->in_ns + since,
		.out_cpu = slot->out_cpu,
		.in_cpu = this_cpu(),
		.how = slot->how,
		.by = slot->by,
		.ran_ns = slot->ran_ns,
		.cpu_ns = slot->cpu_ns - slot->first_cpu_ns,
	};

	__builtin_memcpy(absence.by_name, slot->by_name, sizeof(absence.by_name));
	if (ring_output(&corehop_ring, &absence, sizeof(absence), NO_WAKE_UP))
		__sync_fetch_and_add(&common->lost, 1);
	return 0;
}

/* Copies the kernel's count of the migrations of a thread. */
INLINE void copy_migrations(struct slot *slot, struct task_struct *task)
{
	slot->migrations = task->se.nr_migrations;
	if (!slot->departures && slot->first_migrations == NOT_YET)
		slot->first_migrations = slot->migrations;
}

/* Copies the kernel's account of a thread: the time it had a CPU, and the time it waited for one. */
INLINE void copy_times(struct slot *slot, struct task_struct *task)
{
	slot->cpu_ns = task->se.sum_exec_runtime;
	if (FIELD_EXISTS(task->sched_info.run_delay))
		slot->waited_ns = task->sched_info.run_delay;
}

/* The thread of the slot has come back to this CPU; the absence is recorded where it is one that is asked for. */
INLINE void came_back(bool follow, struct common *common, struct slot *slot, u64 away)
{
	if (!follow)
		slot->in_cpu = this_cpu();
	if (this_cpu() != slot->out_cpu) {
		slot->how |= MOVED;
		slot->cpu_changes++;
	}
	if (!follow)
		return;
	if ((slot->how & (PREEMPTED | MOVED | UNSEEN)) == PREEMPTED && away < BRIEF_NS) {
		slot->brief++;
		slot->brief_ns += away;
	} else if (UNLIKELY(slot->how & (PREEMPTED | MOVED))) {
		report(common, slot);
	}
}

/* A thread that leaves was not seen to come back: it did, to this CPU. */
INLINE void catch_up(bool follow, struct common *common, struct slot *slot, u64 now)
{
	slot->unseen++;
	slot->in_ns = now > slot->out_ns ? now : slot->out_ns + 1;
	slot->how |= UNSEEN;
	came_back(follow, common, slot, 0);
	slot->in_ns = 0;
}

/* Adds to the time that registered threads had this CPU. */
INLINE void note_run(u64 ran_ns)
{
	struct cpu *cpu = cpu_at(this_cpu());

	if (cpu)
		cpu->ran_ns += ran_ns;
}

/* The thread of the slot leaves its CPU. */
INLINE void leave(struct slot *slot, u64 now)
{
	slot->departures++;
	slot->out_ns = now;
	slot->ran_ns = slot->in_ns && slot->in_ns < now ? now - slot->in_ns : 0;
	slot->out_cpu = this_cpu();
}

/* It leaves because `next` takes its CPU. */
INLINE void preempt(struct slot *slot, struct task_struct *next)
{
	slot->preemptions++;
	slot->how = PREEMPTED | AWAY;
	slot->by = (u32)next->pid;
	__builtin_memcpy(slot->by_name, next->comm, sizeof(slot->by_name));
}

/* The thread of the slot is back on a CPU. */
INLINE void arrive(bool follow, struct common *common, struct slot *slot, u64 now)
{
	u64 away;

	if (!follow)
		slot->arrivals++;
	/* Without a time of leaving it has only begun. */
	if (!slot->out_ns) {
		slot->in_ns = now;
		slot->in_cpu = this_cpu();
		return;
	}
	/* The clocks of two run queues were not read at the same moment. */
	if (now <= slot->out_ns)
		now = slot->out_ns + 1;
	away = now - slot->out_ns;
	slot->in_ns = now;
	slot->how &= ~(u64)AWAY;
	if (slot->how & PREEMPTED)
		slot->preempted_ns += away;
	else if (!follow)
		slot->blocked_ns += away;
	if (!follow)
		slot->last_ns = away;
	came_back(follow, common, slot, away);
}

/* A thread leaves for good. */
RARE int end(struct common *common, struct slot *slot, struct task_struct *task)
{
	copy_from_kernel(slot->own_name, sizeof(slot->own_name), task->comm);
	slot->ended = 1;
	displace(common, task->pid);
	return 0;
}

/* A followed thread or another one gets this CPU: books the wait of the one, and begins the turn of either. The
 * kernel begins a wait when the thread gets on the run queue, and has not ended it yet. */
INLINE void take_turn(struct task_struct *next, u32 number, u64 now)
{
	struct cpu *cpu = cpu_at(this_cpu());
	struct slot *slot;
	u64 queued;

	if (!cpu)
		return;
	slot = slot_at(number);
	if (slot && FIELD_EXISTS(next->sched_info.last_queued)) {
		queued = next->sched_info.last_queued;
		if (UNLIKELY(slot->bar == FROZEN || slot->bar == STOPPED) && slot->out_ns)
			lift(slot, queued, now);
		if (queued)
			book_wait_of(cpu, slot, barred_by_quota(cpu, slot, next, queued, now), queued, now);
	}
	begin_turn(cpu, now, next, number);
}

/* A thread leaves a CPU to another one. Where threads are followed, the times are those of the run queue's clock,
 * which has been read for the switch and costs nothing here. A page that its own thread reads has CLOCK_MONOTONIC. */
INLINE int switched(bool follow, bool preempted, struct task_struct *prev, struct task_struct *next,
		    u32 state)
{
	struct common *all = common();
	/* The idle thread may have no queue. */
	u64 clock = follow ? queue_clock(next->pid ? next : prev) : 0, now = clock;
	struct slot *slot;
	u32 number;

	if (!all)
		return 0;
	slot = slot_of(all, prev->pid);
	if (slot) {
		if (!now)
			now = now_ns();
		copy_migrations(slot, prev);
		if (follow)
			copy_times(slot, prev);
		if (UNLIKELY(slot->how & AWAY))
			catch_up(follow, all, slot, now);
		leave(slot, now);
		if (preempted || !state) {
			preempt(slot, next);
		} else {
			slot->voluntary++;
			slot->how = AWAY;
			if (follow && UNLIKELY(state & TASK_DEAD))
				end(all, slot, prev);
		}
		if (follow)
			note_run(slot->ran_ns);
		if (follow && clock)
			note_bar(slot, prev, state, clock);
	}
	number = number_of(all, next->pid);
	if (follow && clock)
		take_turn(next, number, clock);
	slot = slot_at(number);
	if (slot) {
		if (!follow)
			copy_migrations(slot, next);
		arrive(follow, all, slot, now ? now : now_ns());
	}
	return 0;
}

#define SWITCHED(name, follow, state)                                                              \
	TRACEPOINT(sched_switch)                                                                   \
	int name(u64 *context)                                                                     \
	{                                                                                          \
		struct task_struct *prev = (void *)context[1], *next = (void *)context[2];         \
                                                                                                   \
		return switched(follow, context[0], prev, next, state);                            \
	}

SWITCHED(hop_switch, false, context[3])
SWITCHED(hop_switch_follow, true, context[3])
/* Before Linux 5.18 the tracepoint has no fourth argument. */
SWITCHED(hop_switch_old, false, prev->__state)
SWITCHED(hop_switch_follow_old, true, prev->__state)

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

/* Books the wait of a thread that is about to be moved: the kernel has just ended and added it. The lock of the
 * queue that it leaves keeps the turns as they are. */
INLINE void end_wait_elsewhere(struct slot *slot, struct task_struct *task)
{
	u64 now = queue_clock(task), waited, by_quota;
	struct cpu *cpu = cpu_at(slot->out_cpu);

	if (!cpu || !now || !FIELD_EXISTS(task->sched_info.run_delay))
		return;
	waited = task->sched_info.run_delay - slot->waited_ns;
	if (waited && waited < now) {
		by_quota = throttled_ns(task->se.cfs_rq, now);
		by_quota = by_quota > slot->quota_ns ? by_quota - slot->quota_ns : 0;
		book_wait_of(cpu, slot, slot->how & PREEMPTED ? by_quota : 0, now - waited, now);
		slot->waited_ns += waited;
	}
}

/* A thread is given another CPU. */
INLINE int moved(bool follow, struct task_struct *task)
{
	struct common *all = common();
	struct slot *slot = all ? slot_of(all, task->pid) : 0;

	if (!slot)
		return 0;
	if (follow)
		end_wait_elsewhere(slot, task);
	if (slot->out_ns && !may_use(task, slot->out_cpu)) {
		slot->affinity_moves++;
		slot->how |= PINNED;
	}
	return 0;
}

TRACEPOINT(sched_migrate_task)
int hop_migrate(u64 *context)
{
	return moved(false, (void *)context[0]);
}

TRACEPOINT(sched_migrate_task)
int hop_migrate_follow(u64 *context)
{
	return moved(true, (void *)context[0]);
}

/* A registered thread makes another one, which becomes registered. */
TRACEPOINT(sched_process_fork)
int hop_fork(u64 *context)
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
		if (place(all, thread, number))
			return 0;
	}
	__sync_fetch_and_add(&all->unfollowed, 1);
	return 0;
}

/* A thread starts another program and takes its process's number on. */
TRACEPOINT(sched_process_exec)
int hop_exec(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	u32 old = context[1], thread = task->pid, number;
	struct common *all = common();

	if (!all || thread == old)
		return 0;
	number = number_of(all, old);
	if (number != NO_SLOT)
		place(all, thread, number);
	return 0;
}

LICENCE;
