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

case ${1-} in
also) also --nocapture --test-threads=1 2>&1 | tee /dev/console | grep "^test result: ok" ;;
"") sed -n 's/^check_\([a-z_0-9]*\)() {$/\1/p' "$0" ;;
*) "check_$1" ;;
esac
