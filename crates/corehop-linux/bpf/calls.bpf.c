// SPDX-License-Identifier: MIT OR Apache-2.0
/* System calls of a program and its descendants, by number, from a size on. See src/bpf/calls.rs. */
#include "processes.h"

/* Numbers of system calls are below this. */
#define NUMBERS 512
/* The elements of a vector whose sizes are summed up. */
#define ELEMENTS 64
#define AT_EMPTY_PATH 0x1000
/* In the unused sixth argument of a call that the preloaded library makes for itself. */
#define OWN 0x636f7265686f70ull

/* The way to a call's size, or the reason not to count it. In the order of `Size`. */
enum {
	NO_SIZE,
	THIRD,
	FOURTH,
	VECTOR,
	MESSAGE,
	/* Without a size, and not counted where its flags name no path: the third argument, the fourth. */
	PATH_FLAGS_THIRD,
	PATH_FLAGS_FOURTH,
};

struct wish {
	/* The least size that counts; all ones: none does. */
	u64 threshold;
	u64 size;
};

SHOWN_ARRAY(corehop_wishes, struct wish, NUMBERS);
SHOWN_ARRAY(corehop_calls, u64, NUMBERS);

struct element {
	u64 base;
	u64 size;
};

/* struct msghdr of the C library. */
struct message {
	u64 name;
	u64 name_size;
	u64 elements;
	u64 count;
};

/* The bytes of a vector in the program's memory. What cannot be read is taken for large: it counts. */
INLINE u64 vector_size(u64 at, u64 count)
{
	struct element element;
	u64 sum = 0;

	for (u32 i = 0; i < ELEMENTS && i < count; i++) {
		if (copy_from_user(&element, sizeof(element), (void *)(at + i * sizeof(element))))
			return -1;
		sum += element.size;
	}
	return sum;
}

INLINE u64 message_size(u64 at)
{
	struct message message;

	if (copy_from_user(&message, sizeof(message), (void *)at))
		return -1;
	return vector_size(message.elements, message.count);
}

INLINE bool counts(const struct wish *wish, struct pt_regs *regs)
{
	u64 threshold = wish->threshold;

	switch (wish->size) {
	case THIRD:
		return regs->dx >= threshold;
	case FOURTH:
		return regs->r10 >= threshold;
	case VECTOR:
		return vector_size(regs->si, regs->dx) >= threshold;
	case MESSAGE:
		return message_size(regs->si) >= threshold;
	case PATH_FLAGS_THIRD:
		return !(regs->dx & AT_EMPTY_PATH);
	case PATH_FLAGS_FOURTH:
		return !(regs->r10 & AT_EMPTY_PATH);
	}
	return true;
}

/* Partners are named `corehop-` and a number. */
INLINE bool is_partner(void)
{
	union {
		char text[16];
		u64 word;
	} name = {};

	current_name(&name, sizeof(name));
	return name.word == 0x2d706f6865726f63ull;
}

TRACEPOINT(sys_enter)
int hop_call(u64 *context)
{
	struct pt_regs *regs = (void *)context[0];
	u32 number = context[1];
	struct wish *wish;
	u64 *count;

	if (!is_counted(current_thread() >> 32))
		return 0;
	wish = map_lookup(&corehop_wishes, &number);
	if (!wish || wish->threshold == (u64)-1 || regs->r9 == OWN || is_partner() || !counts(wish, regs))
		return 0;
	count = map_lookup(&corehop_calls, &number);
	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}

LICENCE;
