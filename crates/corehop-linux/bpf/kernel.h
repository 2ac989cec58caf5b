/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the programs need of the kernel: types, helpers, maps and questions about types.
 *
 * A structure names only the members that are used. Their offsets here mean nothing: the compiler
 * records each access, and the loader puts in the offsets of the running kernel (CO-RE).
 */
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;
typedef _Bool bool;
#define true 1
#define false 0

/* The kernel's types. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cpumask {
	unsigned long bits[1];
};

struct rq {
	u64 clock;
	u64 prev_steal_time_rq;
	u64 prev_irq_time;
};

struct hrtimer {
	s64 _softexpires;
	void *function;
};

struct cfs_bandwidth {
	struct hrtimer period_timer;
};

struct rt_bandwidth {
	s64 rt_period;
	struct hrtimer rt_period_timer;
};

struct task_group {
	struct rt_bandwidth rt_bandwidth;
	struct cfs_bandwidth cfs_bandwidth;
};

struct cfs_rq {
	struct rq *rq;
	struct task_group *tg;
	int throttle_count;
	int runtime_enabled;
	u64 throttled_clock_self;
	u64 throttled_clock_self_time;
};

struct rt_rq {
	int rt_throttled;
	u64 rt_time;
	u64 rt_runtime;
	struct task_group *tg;
};

struct sched_rt_entity {
	struct sched_rt_entity *parent;
	struct rt_rq *rt_rq;
};

struct sched_dl_entity {
	u64 dl_deadline;
	u64 dl_period;
	s64 runtime;
	u64 deadline;
};

struct sched_entity {
	u64 nr_migrations;
	u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct sched_info {
	u64 run_delay;
	u64 last_queued;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct task_struct {
	u32 __state;
	struct signal_struct *signal;
	struct sched_entity se;
	struct sched_rt_entity rt;
	struct sched_dl_entity dl;
	u32 policy;
	unsigned long jobctl;
	struct sched_info sched_info;
	const struct cpumask *cpus_ptr;
	int pid;
	int tgid;
	char comm[16];
};

struct pt_regs {
	unsigned long r10;
	unsigned long r9;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
};

struct sched_ext_ops {
	int (*select_cpu)(struct task_struct *task, int previous, u64 flags);
	char name[128];
};

struct bpf_struct_ops_sched_ext_ops {
	struct sched_ext_ops data;
};

#pragma clang attribute pop

/* Where a program or an object lies in the object file. */
#define SECTION(name) __attribute__((section(name), used))
/* A program for the tracepoint of this name. Its arguments are the words of `context`. */
#define TRACEPOINT(name) SECTION("tp_btf/" #name)
#define INLINE static inline __attribute__((always_inline))

/* The kernel lends its GPL-only functions to programs that are also under the GPL. */
#define LICENCE char licence[] SECTION("license") = "Dual MIT/GPL"

/* Parts of the definition of a map: the loader reads them from the types of its members. */
#define NUMBER(name, value) int(*name)[value]
#define TYPE(name, type) type *name
#define MAP_HASH 1
#define MAP_ARRAY 2
#define MAP_RING 27
/* Memory is taken as entries come. */
#define AS_NEEDED 1
/* The values may be mapped into user memory. */
#define MMAPABLE 1024

/* An array that user memory shows; the loader may change how many values it has. */
#define SHOWN_ARRAY(array, value_type, count)                                                      \
	struct {                                                                                   \
		NUMBER(type, MAP_ARRAY);                                                           \
		NUMBER(map_flags, MMAPABLE);                                                       \
		NUMBER(max_entries, count);                                                        \
		TYPE(key, u32);                                                                    \
		TYPE(value, value_type);                                                           \
	} array SECTION(".maps")

/* Helpers, by their number in `enum bpf_func_id`. */
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
/* CLOCK_MONOTONIC. */
static u64 (*const now_ns)(void) = (void *)5;
/* Stable: a tracing program is never migrated. */
static u32 (*const this_cpu)(void) = (void *)8;
/* The process's number in the upper half, the thread's own in the lower. */
static u64 (*const current_thread)(void) = (void *)14;
static long (*const current_name)(void *to, u32 bytes) = (void *)16;
static long (*const copy_from_user)(void *to, u32 bytes, const void *from) = (void *)112;
static long (*const copy_from_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
static long (*const ring_output)(void *ring, void *data, u64 bytes, u64 flags) = (void *)130;
static struct task_struct *(*const current_task)(void) = (void *)158;

/* Questions about the running kernel's types, answered when the program is loaded. */
#define FIELD_OFFSET(field) __builtin_preserve_field_info(field, 0)
#define FIELD_SIZE(field) __builtin_preserve_field_info(field, 1)
#define FIELD_EXISTS(field) __builtin_preserve_field_info(field, 2)
#define TYPE_SIZE(type) __builtin_preserve_type_info(*(type *)0, 1)
