#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The checks of the kernel lab, in its guest: functions, never times. A check is a function here:
# its last line of output is shown, and `fail` ends it. Called with a name, this runs that check;
# without, it prints all names, in order.

fail() {
    tail -n 20 answer 2>/dev/null | cut -c 1-300
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
    corehop sim platform >answer || fail "corehop sim platform: exit code $?"
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
    corehop record --json -o moves.parquet -- sh -c \
        'for cpu in 0 4 0 4 0 4 0 4 0 4; do taskset -p -c $cpu $$; done' >said.moves 2>&1
    equals "exit code" 0 $?
    grep '^{' said.moves >answer
    equals "rung" bpf "$(field rung)"
    equals "lost" 0 "$(field lost)"
    # A thread's name comes after its moves: those of the thread called `sh`.
    own=$(sed 's/"affinity_moves":/\n&/g' answer | grep '"name":"sh"' | tail -n 1 | cut -d : -f 2 | cut -d , -f 1)
    [ "$own" = 9 ] || [ "$own" = 10 ] || fail "moves of its own: $own, of 10 (the first may find it there)"
    grep -q '"event":"memory_migration"' answer || fail "no memory_migration among the classes"
    echo "$own moves between packages counted, none lost"
}

# The classes of the rows in a file, with how many there are of each
classes() {
    corehop report contents --rows 1000 "$1" >answer || fail "corehop report contents: exit code $?"
    field event | sort | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)/\2 \1/' | paste -s -d , | sed 's/,/, /g'
}

# Rows whose thread left CPUs 0 to 3 for 4 to 7, or the other way, and rows called so: both numbers
across_packages() {
    corehop report contents --rows 1000 "$1" | grep '"event":"memory_migration"' >answer
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

# offline_4_once_there_are_rows FILE PROCESS
offline_4_once_there_are_rows() {
    until corehop report contents --rows 1 "$1" 2>/dev/null | grep -q .; do
        kill -0 "$2" || fail "it ended before a CPU was taken"
        sleep 0.2
    done
    echo 0 >/sys/devices/system/cpu/cpu4/online || fail "CPU 4 cannot be taken offline"
}

# offlined FILE OPTION...: the exit code of a live measurement whose CPU 4 goes offline once it has
# samples; `answer` holds what it said. The CPU comes back, and no process is left.
offlined() {
    file=$1
    shift
    rm -f "$file" "$file.part"
    corehop measure synthetic --load idle --samples 100000 --quiet -o "$file" "$@" >answer 2>&1 &
    offline_4_once_there_are_rows "$file.part" $!
    wait $!
    code=$?
    echo 1 >/sys/devices/system/cpu/cpu4/online
    # shellcheck disable=SC2009 # there is no pgrep
    ps | grep -v grep | grep corehop && fail "a process is left"
    corehop sim platform | grep -q "CPUs *0-7 usable" || fail "CPU 4 is not back"
    return $code
}

check_hotplug() {
    offlined run.parquet --cpus 0,4 --event memory_migration --wss 4KiB --length 1ms
    equals "exit code" 6 $?
    grep -q "CPU 4.*offline" answer || fail "it does not say that CPU 4 went offline"
    equals "files" run.parquet "$(echo run.*)"
    echo "exit code 6, kept: $(classes run.parquet)"
}

# The job is on that CPU all the time, and in a touch most of it: then the row says so.
check_hotplug_in_a_touch() {
    for try in 1 2 3; do
        offlined touch.parquet --cpus 4 --event none --wss 1MiB
        equals "exit code" 6 $?
        grep -q "CPU 4.*offline" answer || fail "it does not say that CPU 4 went offline"
        corehop report contents --rows 100000 touch.parquet >answer
        taken=$(grep -c cpu_taken answer)
        [ "$taken" -gt 0 ] || continue
        echo "exit code 6, $(wc -l <answer) rows kept, $taken of them disturbed by cpu_taken (try $try)"
        return
    done
    fail "no row is disturbed by cpu_taken"
}

# A set that eight emulated CPUs can run, which are two real ones
LIGHT="--utilisation 0.01..0.05"

# A set of tasks under a scheduler, its answer in `answer`
set_of() {
    rm -f tasks.parquet tasks.jobs.parquet
    corehop measure schedule-sensitive --scheduler "$@" --sets 1 --period 50..100ms --wss 16KiB --load idle \
        --seed 3 --json -o tasks.parquet >answer 2>&1
}

# The sentence of a run about itself
jobs() {
    echo "$(field jobs) jobs, $(field samples) samples, $(field valid) valid"
}

# Nothing of a run is left: no process, no cgroup, no scheduler, and the root's controllers as they were
nothing_left() {
    for try in 1 2 3 4 5 6 7 8 9 10; do
        left=$(ps | grep -v grep | grep "corehop measure"; find /sys/fs/cgroup -name 'corehop-*')
        [ -n "$left" ] || break
        sleep 0.5
    done
    [ -z "$left" ] || fail "left behind: $left"
    equals "CPUs that are balanced together" 0-7 "$(cat /sys/fs/cgroup/cpuset.cpus.effective)"
    equals "controllers of cgroups" "" "$(cat /sys/fs/cgroup/cgroup.subtree_control)"
    equals "sched_ext" disabled "$(cat /sys/kernel/sched_ext/state)"
}

check_g_edf() {
    set_of g-edf --tasks 12 $LIGHT --duration 1s
    equals "exit code" 0 $?
    nothing_left
    jobs
}

# Two clusters, as CPU 0 stays with the rest of the system: nothing leaves its package.
check_c_edf() {
    set_of c-edf --tasks 12 $LIGHT --cpus 1-7 --duration 1s
    equals "exit code" 0 $?
    nothing_left
    said=$(jobs)
    found=$(classes tasks.parquet)
    echo "$found" | grep -q memory_migration && fail "a migration between clusters: $found"
    echo "$said: $found"
}

check_p_edf() {
    set_of p-edf --tasks 8 $LIGHT --cpus 4-7 --duration 1s
    equals "exit code" 0 $?
    nothing_left
    said=$(jobs)
    found=$(classes tasks.parquet)
    echo "$found" | grep -q migration && fail "a migration between partitions: $found"
    echo "$said: $found"
}

check_fixed_priorities() {
    set_of p-fp --tasks 8 $LIGHT --duration 1s
    equals "exit code" 0 $?
    nothing_left
    jobs
}

# Killed half-way: the supervisor takes the partitions back.
check_killed() {
    set_of p-edf --tasks 8 $LIGHT --cpus 4-7 --duration 60s &
    for try in $(seq 40); do
        [ "$(cat /sys/fs/cgroup/corehop-*/corehop-*/cpuset.cpus.partition 2>/dev/null | grep -c root)" = 4 ] && break
        sleep 0.5
    done
    equals "partitions" 4 "$(cat /sys/fs/cgroup/corehop-*/corehop-*/cpuset.cpus.partition | grep -c root)"
    sleep 1
    kill -9 $(ps | grep "corehop measur[e]" | sed 's/^ *\([0-9]*\) .*/\1/' | head -n 1)
    wait
    nothing_left
    echo "4 partitions, and none after SIGKILL"
}

ours_is_in_charge() {
    for try in $(seq 100); do
        [ "$(cat /sys/kernel/sched_ext/state)" = enabled ] && break
        sleep 0.2
    done
    equals "scheduler" "enabled corehop_min" \
        "$(cat /sys/kernel/sched_ext/state /sys/kernel/sched_ext/root/ops | paste -s -d ' ')"
}

check_sched_ext() {
    set_of sched_ext --tasks 8 $LIGHT --duration 1s
    equals "exit code without --allow-system" 3 $?
    grep -q -- --allow-system answer || fail "it does not name the option"
    set_of sched_ext --tasks 8 $LIGHT --duration 3s --allow-system &
    ours_is_in_charge
    wait $!
    equals "exit code" 0 $?
    nothing_left
    said=$(jobs)
    set_of sched_ext --tasks 8 $LIGHT --duration 60s --allow-system &
    ours_is_in_charge
    killall -9 corehop
    wait
    nothing_left
    echo "loaded, $said; unloaded at the end, and after SIGKILL"
}

# Under corehop's scheduler: two threads that wake each other on one CPU, and a third that is bound to it. All run.
check_sched_ext_serves_all() {
    take_turns
    set_of sched_ext --tasks 8 $LIGHT --duration 60s --allow-system &
    measurement=$!
    ours_is_in_charge
    for round in 1 2 3; do
        cpu=$(cut -d ' ' -f 39 /proc/$there/stat)
        # Twenty waits for that CPU; without a turn for it, the kernel takes the scheduler back after 30 s.
        timeout 15 taskset -c "$cpu" sh -c 'for i in $(seq 20); do sleep 0.01; done' ||
            fail "a thread bound to CPU $cpu does not get its turn beside two that wake each other there"
    done
    ours_is_in_charge
    killall -TERM corehop
    wait $measurement
    nothing_left
    echo "a thread has its turns beside two that wake each other"
}

# Half of every CPU is more than the kernel admits where it keeps two thirds for ordinary threads.
check_not_admitted() {
    before=$(cat /proc/sys/kernel/sched_rt_runtime_us)
    echo 333333 >/proc/sys/kernel/sched_rt_runtime_us
    set_of g-edf --tasks 12 --utilisation 0.4..0.5 --duration 1s
    code=$?
    echo "$before" >/proc/sys/kernel/sched_rt_runtime_us
    equals "exit code" 3 $code
    said=$(grep -o "the kernel does not admit the task: earlier tasks reserve .* may reserve" answer)
    [ -n "$said" ] || fail "it does not say why"
    nothing_left
    echo "$said"
}

# A cgroup of somebody else has the CPUs: no partition can be made of them.
check_cgroup_of_others() {
    echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
    mkdir /sys/fs/cgroup/others
    echo 4-7 >/sys/fs/cgroup/others/cpuset.cpus
    echo 4-7 >/sys/fs/cgroup/others/cpuset.cpus.exclusive
    set_of p-edf --tasks 4 $LIGHT --cpus 4-7 --duration 1s
    code=$?
    equals "the others' CPUs" 4-7 "$(cat /sys/fs/cgroup/others/cpuset.cpus.exclusive)"
    rmdir /sys/fs/cgroup/others
    equals "exit code" 3 $code
    grep -q "another program may own these CPUs" answer || fail "it does not say why"
    equals "controllers of cgroups" cpuset "$(cat /sys/fs/cgroup/cgroup.subtree_control)"
    echo -cpuset >/sys/fs/cgroup/cgroup.subtree_control
    nothing_left
    echo "exit code 3, and the others' cgroup as it was"
}

# Its threads would run elsewhere without a word: that ends the run.
check_hotplug_task_set() {
    for scheduler in g-edf p-fp; do
        set_of $scheduler --tasks 12 $LIGHT --duration 60s &
        offline_4_once_there_are_rows tasks.jobs.parquet.part $!
        wait $!
        code=$?
        echo 1 >/sys/devices/system/cpu/cpu4/online
        equals "exit code of $scheduler" 6 $code
        grep -q "CPUs 4 went offline" answer || fail "it does not say that CPU 4 went offline"
        nothing_left
        corehop report contents --rows 100000 tasks.jobs.parquet >answer
        kept="$kept $scheduler $(wc -l <answer) jobs,"
    done
    echo "exit code 6, kept:${kept%,}"
}

CGROUPS=/sys/fs/cgroup
CPU4=/sys/devices/system/cpu/cpu4/online

# Two shells that hand a line to and fro through pipes, until the check ends: `there` and `back` are their numbers.
take_turns() {
    mkfifo to fro
    sh -c 'exec 3<>to 4<>fro; while read -r line <&3; do echo x >&4; done' &
    there=$!
    sh -c 'exec 3<>to 4<>fro; while :; do echo x >&3; read -r line <&4; done' &
    back=$!
    trap put_away EXIT
}

# However the check ends
put_away() {
    # The shell says that they were terminated.
    { kill $there $back; wait $there $back; } 2>/dev/null
    echo 1 >$CPU4
    rmdir $CGROUPS/placed $CGROUPS/elsewhere 2>/dev/null
    echo -cpuset >$CGROUPS/cgroup.subtree_control
}

# The CPUs that both shells may run on
turns_on() {
    cat /proc/$there/status /proc/$back/status | sed -n 's/^Cpus_allowed_list:\t//p' | paste -s -d ' '
}

turns_are_on() {
    [ "$(turns_on)" = "$1" ]
}

# Both shells on one CPU, or on those of one package
turns_are_together() {
    case $(turns_on | tr ' ' '\n' | sort -u | paste -s -d ' ') in
    [0-7] | 0-3 | 4-7) ;;
    *) return 1 ;;
    esac
}

# eventually WHAT COMMAND...: the command succeeds within some seconds
eventually() {
    what=$1
    shift
    for try in $(seq 120); do
        "$@" && return
        sleep 0.2
    done
    cp said.place answer
    fail "not seen: $what; the shells may run on CPUs $(turns_on)"
}

# perhaps COMMAND...: whether the command succeeds within some seconds. An emulated look takes so long, and a window
# with it, that a trial may not come to its second half.
perhaps() {
    for try in $(seq 60); do
        "$@" && return
        sleep 0.2
    done
    return 1
}

# placing OPTION...: a placer in the background, with a log
placing() {
    corehop place --window 20ms --force -o log.jsonl "$@" >said.place 2>&1 &
    placer=$!
}

# windows_in_log NUMBER: the log has more than so many
windows_in_log() {
    [ "$(grep -c '"window":{' log.jsonl)" -gt "$1" ]
}

# The placer goes on for some windows.
goes_on() {
    eventually "further windows" windows_in_log $(($(grep -c '"window":{' log.jsonl) + 1))
}

# The placer ends at a signal, without a fault. (SIGTERM: a shell without job control starts its background jobs with SIGINT
# ignored, and what was ignored stays ignored.)
ends() {
    kill -TERM $placer
    wait $placer
    code=$?
    cp said.place answer
    equals "exit code of the placer" 130 $code
    ! grep -i "error\|panicked\|not undone" answer || fail "it does not end well"
}

check_place() {
    take_turns
    placing --start 0,4 --progress syscalls:write $there $back
    eventually "the start" turns_are_on "0 4"
    if perhaps turns_are_together; then
        together="to $(turns_on) together"
    else
        together="(not seen together: no trial came so far)"
    fi
    eventually "a window" windows_in_log 0
    ends
    equals "CPUs at the end" "0-7 0-7" "$(turns_on)"
    corehop report contents log.jsonl >answer || fail "corehop report contents: exit code $?"
    grep -q "sh ($there) and sh ($back): .* wake-ups/s" answer || fail "the pair is not named"
    echo "from CPUs 0 and 4 $together, and back to 0-7"
}

# Beside the kernel's cache-aware balancing, which moves threads too: it is named, and nothing stays placed.
check_place_llc() {
    llc=/sys/kernel/debug/sched/llc_balancing/enabled
    [ -e $llc ] || { echo "this kernel ($(uname -r)) has no cache-aware balancing"; exit 0; }
    before=$(cat $llc)
    echo 1 >$llc || fail "it cannot be turned on"
    take_turns
    placing --start 0,4 --progress syscalls:write $there $back
    eventually "the start" turns_are_on "0 4"
    eventually "a window" windows_in_log 0
    goes_on
    ends
    echo "$before" >$llc
    grep -q "cache-aware-balancing" said.place || fail "the placer does not name it"
    equals "CPUs at the end" "0-7 0-7" "$(turns_on)"
    echo "named; from CPUs 0 and 4 back to 0-7"
}

# Beside a scheduler of sched_ext, which decides where threads run: it is named, stays in charge, and nothing stays placed.
check_place_sched_ext() {
    take_turns
    set_of sched_ext --tasks 8 $LIGHT --duration 60s --allow-system &
    measurement=$!
    ours_is_in_charge
    placing --start 0,4 --progress syscalls:write $there $back
    eventually "the start" turns_are_on "0 4"
    eventually "a window" windows_in_log 0
    goes_on
    ours_is_in_charge
    ends
    killall -TERM corehop
    wait $measurement
    grep -q "sched-ext: the scheduler .corehop_min. is loaded" said.place || fail "the placer does not name it"
    ! dmesg | grep "corehop_min.*failed to run" || fail "a thread did not get its turn"
    equals "CPUs at the end" "0-7 0-7" "$(turns_on)"
    nothing_left
    echo "named; from CPUs 0 and 4 back to 0-7, and the scheduler in charge all the time"
}

# Futex calls are counted; whether pages can be sampled here is said.
check_place_evidence() {
    corehop place --evidence locks,pages --for 2s -- sh -c 'for i in 1 2 3 4 5; do sleep 1; done' >answer 2>&1
    equals "exit code" 0 $?
    ! grep "evidence.*locks.* is off" answer || fail "futex calls are not counted"
    pages=$(grep "evidence.*pages.* is off" answer)
    echo "locks: counted; pages: ${pages:-sampled}"
}

# The cpuset of both loses a CPU while they are placed there, and has it again later.
check_place_cpuset() {
    take_turns
    echo +cpuset >$CGROUPS/cgroup.subtree_control
    mkdir $CGROUPS/placed
    echo 0,4-5 >$CGROUPS/placed/cpuset.cpus
    for it in $there $back; do echo "$it" >$CGROUPS/placed/cgroup.procs; done
    placing --start 0,4 --progress syscalls:write $there $back
    eventually "the start" turns_are_on "0 4"
    echo 4-5 >$CGROUPS/placed/cpuset.cpus
    goes_on
    turns_on | grep -q "[^45 -]" && fail "outside of the cpuset: $(turns_on)"
    ends
    equals "CPUs in the smaller cpuset" "4-5 4-5" "$(turns_on)"
    echo 0,4-5 >$CGROUPS/placed/cpuset.cpus
    equals "CPUs in the cpuset as it was" "0,4-5 0,4-5" "$(turns_on)"
    for it in $there $back; do echo "$it" >$CGROUPS/cgroup.procs; done
    equals "CPUs outside of it" "0-7 0-7" "$(turns_on)"
    echo "it goes on in a smaller cpuset, and leaves nothing pinned"
}

# A CPU that a thread is placed on goes offline, and comes back before or after the placer's end.
check_place_hotplug() {
    take_turns
    for comes_back in before after; do
        placing --start 0,4 --progress syscalls:write $there $back
        eventually "the start" turns_are_on "0 4"
        echo 0 >$CPU4 || fail "CPU 4 cannot be taken offline"
        goes_on
        [ $comes_back = after ] || echo 1 >$CPU4
        [ $comes_back = after ] || goes_on
        ends
        echo 1 >$CPU4
        equals "CPUs at the end, CPU 4 back $comes_back it" "0-7 0-7" "$(turns_on)"
    done
    echo "it goes on without CPU 4, and leaves nothing pinned"
}

# One of both leaves the cgroup while they are placed.
check_place_cgroup() {
    take_turns
    mkdir $CGROUPS/placed $CGROUPS/elsewhere
    for it in $there $back; do echo "$it" >$CGROUPS/placed/cgroup.procs; done
    placing --start 0,4 --cgroup /placed
    eventually "the start" turns_are_on "0 4"
    echo $back >$CGROUPS/elsewhere/cgroup.procs
    eventually "the one that left put back" turns_are_on "0 0-7"
    goes_on
    equals "CPUs of both" "0 0-7" "$(turns_on)"
    ends
    equals "CPUs at the end" "0-7 0-7" "$(turns_on)"
    echo "the one that left the cgroup is put back at once, the other at the end"
}

case ${1-} in
also) also --nocapture --test-threads=1 2>&1 | tee /dev/console | grep "^test result: ok" ;;
"") sed -n 's/^check_\([a-z_0-9]*\)() {$/\1/p' "$0" ;;
*) "check_$1" ;;
esac
