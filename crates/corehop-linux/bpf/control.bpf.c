// SPDX-License-Identifier: MIT OR Apache-2.0
/* The control page: what happens to registered threads. See src/bpf/control/mod.rs. */
#include "control.h"
#include "bars.h"

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
