# SPDX-License-Identifier: MIT OR Apache-2.0
# The measured loops, in assembly so that no compiler can change what they do.
#
# Each walks its working set once, in chunks of 16 lines. After every chunk it reads the time-stamp
# counter: a chunk that took longer than `threshold` has a hole in it and is counted apart. The whole
# loop is a restartable sequence: when the scheduler preempts or migrates the thread, or a signal
# arrives, the kernel continues at `abort`, which counts it, and goes on from the element at which
# the chunk began. The registers keep their values there, so nothing else needs saving.
#
# rdi on entry: the context, laid out as `struct Context` in mod.rs says.

.macro CH_ENTER
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    mov rbx, rdi
    mov r13, [rbx + 8]                  # threshold
    mov r14, [rbx + 16]                 # deadline
    mov r9,  [rbx + 32]                 # share of written elements, as a fraction of 2^64
    mov r8,  [rbx + 40]                 # its accumulator
    lea r10, [rbx + 256]                # where the writes of the other elements go
.endm

# Arms the restartable sequence; always the last thing before its code is entered, because the kernel
# disarms it when it finds the thread elsewhere. (CH_LEAVE notices if that happened.)
.macro CH_ARM descriptor
    mov rdx, [rbx + 24]
    test rdx, rdx
    jz 77f
    lea rax, [rip + \descriptor]
    mov [rdx + 8], rax                  # rseq->rseq_cs
77:
.endm

.macro CH_START
    mfence
    lfence
    rdtsc
    lfence
    shl rdx, 32
    or rax, rdx
    mov [rbx + 48], rax
    mov r15, rax
.endm

# The time stamp between two chunks. Falls through where the chunk was in order. The walks exist a
# second time without it, so that its cost can be measured.
.macro CH_STAMP stamped, gap, deadline
    .if \stamped
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov rdx, rax
    sub rdx, r15
    mov r15, rax
    cmp rdx, r13
    ja \gap
    cmp rax, r14
    ja \deadline
    .endif
.endm

# A chunk with a hole: rdx holds its ticks.
.macro CH_GAP descriptor, resume, deadline
    add qword ptr [rbx + 72], 1
    add [rbx + 80], rdx
    mov r13, [rbx + 8]
    cmp r15, r14
    ja \deadline
    CH_ARM \descriptor
    jmp \resume
.endm

# The kernel came by. The time since the last stamp is lost; the chunk is walked again, and counted
# as uncertified by a threshold that no chunk can keep.
.macro CH_ABORT
    add qword ptr [rbx + 64], 1
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov rdx, rax
    sub rdx, r15
    add [rbx + 80], rdx
    mov r15, rax
    xor r13d, r13d
.endm

.macro CH_LEAVE
    rdtscp
    lfence
    shl rdx, 32
    or rax, rdx
    mov [rbx + 56], rax
    mov rcx, [rbx + 24]
    test rcx, rcx
    jz 78f
    mov rax, [rcx + 8]
    mov qword ptr [rcx + 8], 0
    test rax, rax
    jnz 78f
    mov qword ptr [rbx + 120], 1        # it was disarmed on the way: it certifies nothing
78:
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret
.endm

.macro CH_DESCRIPTOR name
    .pushsection .data.rel.ro, "aw"
    .balign 32
\name\()_cs:
    .long 0, 0
    .quad \name\()_begin, \name\()_end - \name\()_begin, \name\()_abort
    .popsection
.endm

# One chain: `element` reads the next element's address into rsi, and may write.
.macro CH_LIST name, element, fence, stamped
    .globl \name
    .type \name, @function
    .balign 64
\name:
    CH_ENTER
    mov rsi, [rbx]
    mov r12, rsi
    mov rbp, rsi
    mov r11, r8
    CH_START
    CH_ARM \name\()_cs
\name\()_begin:
    .balign 32
2:  .rept 16
    \element
    .endr
    CH_STAMP \stamped, 5f, 6f
3:  mov rbp, rsi                        # the chunk is done: an abort goes on from here
    mov r11, r8
    cmp rsi, r12
    jne 2b
\name\()_end:
4:
    \fence
    CH_LEAVE
5:  CH_GAP \name\()_cs, 3b, 6f
6:  mov qword ptr [rbx + 88], 1         # given up at the deadline
    mov [rbx + 96], rsi
    jmp 4b
    .long 0x53053053                    # RSEQ_SIG, which the kernel wants before an abort address
\name\()_abort:
    CH_ABORT
    mov rsi, rbp
    mov r8, r11
    CH_ARM \name\()_cs
    jmp 2b
    .size \name, . - \name
    CH_DESCRIPTOR \name
.endm

.macro CH_READ_NEXT
    mov rsi, [rsi]
.endm

# Bresenham's line decides which elements are written; the store always happens, so that no branch
# can be mispredicted, but the other elements' goes to a line of our own.
.macro CH_WRITE_NEXT
    add r8, r9
    mov rdx, r10
    cmovc rdx, rsi
    mov [rdx + 8], r9
    mov rsi, [rsi]
.endm

.macro CH_NO_FENCE
.endm
.macro CH_FENCE
    mfence
.endm

    .text
    CH_LIST corehop_list_read, CH_READ_NEXT, CH_NO_FENCE, 1
    CH_LIST corehop_list_read_plain, CH_READ_NEXT, CH_NO_FENCE, 0
    CH_LIST corehop_list_write, CH_WRITE_NEXT, CH_FENCE, 1
    CH_LIST corehop_list_write_plain, CH_WRITE_NEXT, CH_FENCE, 0

# Several chains at once. Their elements lie in two buffers in the context, used in turn: the one that
# rbp points at is whole at any moment, so an abort goes on from there.
.macro CH_SAVE4 at
    mov [\at], rsi
    mov [\at + 8], rdi
    mov [\at + 16], r11
    mov [\at + 24], r12
.endm
.macro CH_LOAD4 at
    mov rsi, [\at]
    mov rdi, [\at + 8]
    mov r11, [\at + 16]
    mov r12, [\at + 24]
.endm

.macro CH_WRITE_ONE register
    add r8, r9
    mov rdx, r10
    cmovc rdx, \register
    mov [rdx + 8], r9
    mov \register, [\register]
.endm

.macro CH_FOUR name, write, fence, stamped
    .globl \name
    .type \name, @function
    .balign 64
\name:
    CH_ENTER
    lea rbp, [rbx + 128]
    CH_LOAD4 rbp
    CH_START
    CH_ARM \name\()_cs
\name\()_begin:
    .balign 32
2:  .rept 4
    .if \write
    CH_WRITE_ONE rsi
    CH_WRITE_ONE rdi
    CH_WRITE_ONE r11
    CH_WRITE_ONE r12
    .else
    mov rsi, [rsi]
    mov rdi, [rdi]
    mov r11, [r11]
    mov r12, [r12]
    .endif
    .endr
    CH_STAMP \stamped, 5f, 6f
3:  mov rcx, rbp
    xor rcx, 64
    CH_SAVE4 rcx
    mov rbp, rcx
    cmp rsi, [rbx]
    jne 2b
\name\()_end:
4:
    \fence
    CH_LEAVE
5:  CH_GAP \name\()_cs, 3b, 6f
6:  mov qword ptr [rbx + 88], 1
    jmp 4b
    .long 0x53053053
\name\()_abort:
    CH_ABORT
    CH_LOAD4 rbp
    CH_ARM \name\()_cs
    jmp 2b
    .size \name, . - \name
    CH_DESCRIPTOR \name
.endm
    CH_FOUR corehop_list4_read, 0, CH_NO_FENCE, 1
    CH_FOUR corehop_list4_read_plain, 0, CH_NO_FENCE, 0
    CH_FOUR corehop_list4_write, 1, CH_FENCE, 1
    CH_FOUR corehop_list4_write_plain, 1, CH_FENCE, 0

# Eight chains: four of them live in registers that a read-only or writing walk of four leaves free
# only by keeping the thresholds in memory.
.macro CH_EIGHT name, write, fence, stamped
    .globl \name
    .type \name, @function
    .balign 64
\name:
    CH_ENTER
    lea rbp, [rbx + 128]
    CH_START8
    CH_LOAD8 rbp
    CH_ARM \name\()_cs
\name\()_begin:
    .balign 32
2:  .rept 2
    .if \write
    CH_WRITE_ONE rsi
    CH_WRITE_ONE rdi
    CH_WRITE_ONE r11
    CH_WRITE_ONE r12
    CH_WRITE_ONE r13
    CH_WRITE_ONE r14
    CH_WRITE_ONE r15
    CH_WRITE_ONE rcx
    .else
    mov rsi, [rsi]
    mov rdi, [rdi]
    mov r11, [r11]
    mov r12, [r12]
    mov r13, [r13]
    mov r14, [r14]
    mov r15, [r15]
    mov rcx, [rcx]
    .endif
    .endr
    .if \stamped
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov rdx, rax
    sub rdx, [rbx + 104]
    mov [rbx + 104], rax
    cmp rdx, [rbx + 112]
    ja 5f
    cmp rax, [rbx + 16]
    ja 6f
    .endif
3:  mov rax, rbp
    xor rax, 64
    CH_SAVE4 rax
    mov [rax + 32], r13
    mov [rax + 40], r14
    mov [rax + 48], r15
    mov [rax + 56], rcx
    mov rbp, rax
    cmp rsi, [rbx]
    jne 2b
\name\()_end:
4:
    \fence
    CH_LEAVE
5:  add qword ptr [rbx + 72], 1
    add [rbx + 80], rdx
    mov rdx, [rbx + 8]
    mov [rbx + 112], rdx
    cmp rax, [rbx + 16]
    ja 6f
    CH_ARM \name\()_cs
    jmp 3b
6:  mov qword ptr [rbx + 88], 1
    jmp 4b
    .long 0x53053053
\name\()_abort:
    add qword ptr [rbx + 64], 1
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov rdx, rax
    sub rdx, [rbx + 104]
    add [rbx + 80], rdx
    mov [rbx + 104], rax
    mov qword ptr [rbx + 112], 0
    CH_LOAD8 rbp
    CH_ARM \name\()_cs
    jmp 2b
    .size \name, . - \name
    CH_DESCRIPTOR \name
.endm
.macro CH_LOAD8 at
    CH_LOAD4 \at
    mov r13, [\at + 32]
    mov r14, [\at + 40]
    mov r15, [\at + 48]
    mov rcx, [\at + 56]
.endm
# With eight chains, the last stamp and the threshold lie in the context.
.macro CH_START8
    mov rax, [rbx + 8]
    mov [rbx + 112], rax
    mfence
    lfence
    rdtsc
    lfence
    shl rdx, 32
    or rax, rdx
    mov [rbx + 48], rax
    mov [rbx + 104], rax
.endm
    CH_EIGHT corehop_list8_read, 0, CH_NO_FENCE, 1
    CH_EIGHT corehop_list8_read_plain, 0, CH_NO_FENCE, 0
    CH_EIGHT corehop_list8_write, 1, CH_FENCE, 1
    CH_EIGHT corehop_list8_write_plain, 1, CH_FENCE, 0

# The sequential scan of 8-byte words (Bastoni et al. 3.2): each word is either read or written.
.macro CH_WORD offset
    add r8, r9
    jc 71f
    add rcx, [rsi + \offset]
    jmp 72f
71: mov [rsi + \offset], r9
72:
.endm
.macro CH_LINE_MIXED
    CH_WORD 0
    CH_WORD 8
    CH_WORD 16
    CH_WORD 24
    CH_WORD 32
    CH_WORD 40
    CH_WORD 48
    CH_WORD 56
    add rsi, 64
.endm
.macro CH_LINE_READ
    add rcx, [rsi]
    add rcx, [rsi + 8]
    add rcx, [rsi + 16]
    add rcx, [rsi + 24]
    add rcx, [rsi + 32]
    add rcx, [rsi + 40]
    add rcx, [rsi + 48]
    add rcx, [rsi + 56]
    add rsi, 64
.endm
.macro CH_SCAN name, line, fence, stamped
    .globl \name
    .type \name, @function
    .balign 64
\name:
    CH_ENTER
    mov rsi, [rbx]
    mov r12, [rbx + 96]                 # the end of the working set
    mov rbp, rsi
    mov r11, r8
    CH_START
    CH_ARM \name\()_cs
\name\()_begin:
2:  .rept 16
    \line
    .endr
    CH_STAMP \stamped, 5f, 6f
3:  mov rbp, rsi
    mov r11, r8
    cmp rsi, r12
    jne 2b
\name\()_end:
4:
    \fence
    CH_LEAVE
5:  CH_GAP \name\()_cs, 3b, 6f
6:  mov qword ptr [rbx + 88], 1
    jmp 4b
    .long 0x53053053
\name\()_abort:
    CH_ABORT
    mov rsi, rbp
    mov r8, r11
    CH_ARM \name\()_cs
    jmp 2b
    .size \name, . - \name
    CH_DESCRIPTOR \name
.endm
    CH_SCAN corehop_scan_read, CH_LINE_READ, CH_NO_FENCE, 1
    CH_SCAN corehop_scan_read_plain, CH_LINE_READ, CH_NO_FENCE, 0
    CH_SCAN corehop_scan_write, CH_LINE_MIXED, CH_FENCE, 1
    CH_SCAN corehop_scan_write_plain, CH_LINE_MIXED, CH_FENCE, 0

# The same time stamps around nothing: their own cost, to be subtracted.
    .globl corehop_empty
    .type corehop_empty, @function
    .balign 64
corehop_empty:
    CH_ENTER
    CH_START
    CH_ARM corehop_empty_cs
corehop_empty_begin:
    CH_STAMP 1, 5f, 6f
3:
corehop_empty_end:
4:  CH_LEAVE
5:  CH_GAP corehop_empty_cs, 3b, 6f
6:  jmp 4b
    .long 0x53053053
corehop_empty_abort:
    CH_ABORT
    jmp 4b
    .size corehop_empty, . - corehop_empty
    CH_DESCRIPTOR corehop_empty

# The user's own job, called between the same time stamps. There is no restartable sequence around it,
# as it could not be gone on with, and no stamp inside of it: the context gives its address, its memory
# and size, and the number of the call.
    .globl corehop_call
    .type corehop_call, @function
    .balign 64
corehop_call:
    CH_ENTER
    sub rsp, 8                          # a callee expects the stack to be aligned
    CH_START
    mov rdi, [rbx]
    mov rsi, [rbx + 96]
    mov rdx, [rbx + 112]
    call [rbx + 104]
    mfence
    add rsp, 8
    CH_LEAVE
    .size corehop_call, . - corehop_call

# Code: a chain of jumps over lines, made at run time (code.rs). It is entered at rsi and ends with a
# jump to r12. Its stamping lines keep in rbp where the current chunk began; where a chunk has a hole
# they put into rsi where to go on and jump to r10, and at the deadline they jump to r11. The
# restartable sequence is the code's own memory; the context says where its descriptor lies.
.macro CH_ARM_CODE
    mov rdx, [rbx + 24]
    test rdx, rdx
    jz 77f
    mov rax, [rbx + 96]
    mov [rdx + 8], rax
77: mov rax, r15                        # what the stamping lines expect there
.endm
    .globl corehop_code
    .type corehop_code, @function
    .balign 64
corehop_code:
    CH_ENTER
    mov rsi, [rbx]
    mov rbp, rsi
    lea r12, [rip + 4f]
    lea r10, [rip + 5f]
    lea r11, [rip + 6f]
    CH_START
    CH_ARM_CODE
    jmp rsi
4:  CH_LEAVE
5:  add qword ptr [rbx + 72], 1
    add [rbx + 80], rdx
    mov r13, [rbx + 8]
    cmp r15, r14
    ja 6f
    CH_ARM_CODE
    jmp rsi
6:  mov qword ptr [rbx + 88], 1
    jmp 4b
    .long 0x53053053
    .globl corehop_code_abort
corehop_code_abort:
    CH_ABORT
    CH_ARM_CODE
    jmp rbp
    .size corehop_code, . - corehop_code
