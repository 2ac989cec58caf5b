#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# What the kernel lab checks, in its guest: functions, never times. A check is a function here:
# its last line of output is shown, and `fail` ends it. Called with a name, this runs that check;
# without, it prints all names, in order.

fail() {
    cat answer 2>/dev/null
    echo "$*"
    exit 1
}

# equals WHAT WANTED GOT
equals() {
    [ "$2" = "$3" ] || fail "$1: $3 instead of $2"
}

# field NAME: the values of that name in `answer`, JSON, one a line, in order and without quotes
field() {
    grep -o "\"$1\": *[^,}]*" answer | sed 's/^[^:]*: *//; s/"//g'
}

check_discovery() {
    corehop platform >answer || fail "corehop platform: exit code $?"
    equals "CPUs" 0-7 "$(sed -n 's/^ *CPUs *\([^ ]*\) usable/\1/p' answer)"
    equals "nodes, packages and their L3" "0 0 0-3,1 1 4-7" "$(
        sed -n 's/^node \([0-9]*\) .* package \([0-9]*\) · L3 16 MiB *CPUs \(.*\)/\1 \2 \3/p' answer | paste -s -d ,
    )"
    equals "memory architecture" numa "$(sed -n 's/^ *memory  *//p' answer)"
    grep -q "memory_migration *for instance CPU 0 to CPU 4" answer || fail "no memory_migration from CPU 0 to CPU 4"
    corehop doctor >answer || fail "corehop doctor: exit code $?"
    grep -q "llc-size *L3 of 16 MiB serves 4 CPUs" answer || fail "the doctor does not see an L3 for 4 CPUs"
    echo "2 packages with an L3 each, 2 nodes, 8 CPUs"
}

# A shell moves itself, ten times, from one package to the other and back.
check_control_page() {
    corehop measure schedule-sensitive --json --quiet -o moves.parquet -- sh -c \
        'for cpu in 0 4 0 4 0 4 0 4 0 4; do taskset -p -c $cpu $$; done' >said.moves 2>&1
    equals "exit code" 0 $?
    grep '^{' said.moves >answer
    equals "rung" bpf "$(field rung)"
    equals "lost" 0 "$(field lost)"
    # Its name comes after its numbers: those of the thread called `sh`.
    own=$(grep -o '{[^{}]*"name":"sh"[^{}]*}' answer | grep -o '"affinity_moves":[0-9]*' | cut -d : -f 2)
    [ "$own" = 9 ] || [ "$own" = 10 ] || fail "moves of its own: $own, of 10 (the first may find it there)"
    grep -q '"event":"memory_migration"' answer || fail "no memory_migration among the classes"
    echo "$own moves between packages counted, none lost"
}

# The classes of the rows in a file, with how many there are of each
classes() {
    corehop show --rows 1000 "$1" >answer || fail "corehop show: exit code $?"
    field event | sort | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)/\2 \1/' | paste -s -d , | sed 's/,/, /g'
}

# Rows whose thread left CPUs 0 to 3 for 4 to 7, or the other way, and rows called so: both numbers
across_packages() {
    corehop show --rows 1000 "$1" | grep '"event":"memory_migration"' >answer
    field memory_architecture | sort -u | grep -qx numa || fail "a memory_migration on: $(field memory_architecture)"
    field from_cpu >from
    field to_cpu | paste -d ' ' from - |
        while read -r from to; do [ $((from / 4)) != $((to / 4)) ] || fail "CPU $from to CPU $to is no memory_migration"; done
}

# As on the machine that started the lab, whose table is in /simulated.csv.
check_synthetic_simulated() {
    /simulate.sh corehop >simulated.csv || fail "exit code $?"
    cmp simulated.csv /simulated.csv || fail "the same seed gives another table here than where the lab was started"
    grep -q ",memory_migration," simulated.csv || fail "no memory_migration in the table"
    echo "the same $(wc -l <simulated.csv) lines as with other CPUs under another kernel"
}

check_synthetic_live() {
    corehop measure synthetic --cpus 0,1,4 --event none,preemption,l3_migration,memory_migration --wss 4KiB \
        --length 1ms --load idle --samples 2 --budget 30s --quiet -o live.parquet 2>&1 || fail "exit code $?"
    found=$(classes live.parquet)
    for class in none preemption l3_migration memory_migration; do
        echo "$found" | grep -q "$class" || fail "no $class among: $found"
    done
    across_packages live.parquet
    echo "$found"
}

# A CPU that a run uses goes offline, and comes back.
check_hotplug() {
    cpu=/sys/devices/system/cpu/cpu4/online
    mkdir run
    corehop measure synthetic --cpus 0,4 --event memory_migration --wss 4KiB --length 1ms --load idle \
        --samples 100000 --quiet -o run/run.parquet >answer 2>&1 &
    measuring=$!
    while [ "$(wc -c 2>/dev/null <run/run.parquet.part || echo 0)" -lt 20000 ]; do
        kill -0 $measuring || fail "it ended before a CPU was taken"
        sleep 0.2
    done
    echo 0 >$cpu || fail "CPU 4 cannot be taken offline"
    wait $measuring
    code=$?
    echo 1 >$cpu
    equals "exit code" 6 $code
    grep -q "CPU 4.*offline" answer || fail "it does not say that CPU 4 went offline"
    equals "files" run.parquet "$(ls run)"
    kept=$(classes run/run.parquet)
    ps | grep -v grep | grep corehop && fail "a process is left"
    corehop platform | grep -q "CPUs *0-7 usable" || fail "CPU 4 is not back"
    echo "exit code 6, kept: $kept"
}

case ${1-} in
also) also --nocapture --test-threads=1 2>&1 | tee /dev/console | grep "^test result: ok" ;;
"") sed -n 's/^check_\([a-z_0-9]*\)() {$/\1/p' "$0" ;;
*) "check_$1" ;;
esac
