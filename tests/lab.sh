#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The kernel lab: boots a current Debian kernel in QEMU (without KVM), with eight CPUs in two packages
# and two NUMA nodes, and runs tests/lab/checks.sh in it.
#
#     tests/lab.sh BINARY [CHECK...]      the static binary; all checks, if none is named
#
# LAB_SECONDS bounds the guest (600), LAB_SUITE is where its kernel comes from (trixie-backports). LAB_ALSO is
# one more static program for the guest, a test for instance, that the check `also` runs.
# If the lab cannot run, it says why and succeeds, unless LAB_REQUIRED is set.
set -eu
binary=$1
shift
cd "$(dirname "$0")/.."
lab=target/lab
seconds=${LAB_SECONDS:-600}

skip() {
    echo "lab: skipped: $*"
    exit ${LAB_REQUIRED:+1}
}

mkdir -p $lab
tests/lab/fetch.sh $lab >$lab/fetch.log 2>&1 || skip "$(tail -n 1 $lab/fetch.log)"
kernel=$(find $lab/root/usr/lib/modules -name vmlinuz)

# QEMU with the loader and the libraries that it was built with.
emulator() {
    system=$lab/root/usr
    QEMU_MODULE_DIR=$system/lib/x86_64-linux-gnu/qemu timeout "$seconds" $system/lib64/ld-linux-x86-64.so.2 \
        --library-path $system/lib/x86_64-linux-gnu $system/bin/qemu-system-x86_64 \
        -L $system/share/qemu -L $system/share/seabios "$@"
}

# The parts of the guest: a shell, the program, the checks.
root=$lab/guest
rm -rf $root
mkdir -p $root/bin $root/proc $root/sys $root/dev $root/tmp
cp $lab/root/usr/bin/busybox $root/bin/busybox
cp "$binary" $root/bin/corehop
cp tests/lab/init tests/lab/checks.sh tests/lab/simulate.sh $root/
tests/lab/simulate.sh "$binary" >$root/simulated.csv
[ -z "${LAB_ALSO-}" ] || cp "$LAB_ALSO" $root/bin/also
(cd $root && find . | ../root/usr/bin/busybox cpio -o -H newc 2>/dev/null) >$lab/initramfs

wanted=${*:-$(sh tests/lab/checks.sh)}
# The kernel hands what it does not know to init: the names of the checks, behind `--`. Watchdogs and
# the watch over the clock are off, since the guest's CPUs wait for each other on two real ones; the length
# of a delay loop (lpj) is given, since on a loaded machine measuring it may find no end; and the timer is not
# tested, since there a tick may not come in time, and the kernel would panic.
command="console=ttyS0 quiet panic=-1 mitigations=off nowatchdog tsc=reliable lpj=8000000 no_timer_check"
command="$command rcupdate.rcu_cpu_stall_suppress=1 --"

# One half of CPUs and memory for each node, and the nodes as far apart as two packages usually are.
half() {
    echo "-object memory-backend-ram,id=memory$1,size=512M -numa node,nodeid=$1,cpus=$2,memdev=memory$1"
}
console=$lab/console
began=$(date +%s)
# shellcheck disable=SC2046,SC2086 # both are lists of words
{
    emulator -accel tcg,thread=multi -cpu max -smp 8,sockets=2,cores=4,threads=1 -m 1G \
        $(half 0 0-3) $(half 1 4-7) -numa dist,src=0,dst=1,val=21 \
        -nic none -display none -monitor none -serial stdio -no-reboot \
        -kernel "$kernel" -initrd $lab/initramfs -append "$command $wanted" </dev/null 2>&1 || true
} | sed -u 's/\r//g' | tee $console | sed -un '/^lab: done/d; s/^lab: /lab: /p'
took=$(($(date +%s) - began))

passed=0
missing=
for check in $wanted; do
    if grep -q "^lab: ok $check:" $console; then passed=$((passed + 1)); else missing="$missing $check"; fi
done
count=$(echo "$wanted" | wc -w)
release=$(basename "$(dirname "$kernel")")
echo "lab: $passed of $count checks passed on Linux $release, in $took s (all it said: $console)"
[ -n "$missing" ] || exit 0
if grep -q "Kernel panic" $console; then
    echo "lab: the guest's kernel panicked:" >&2
    grep -A 5 "Kernel panic" $console >&2
elif ! grep -q "^lab: done" $console; then
    echo "lab: the guest did not come to its end in $seconds s (LAB_SECONDS); the last it said:" >&2
    tail -n 5 $console >&2
fi
echo "lab: not passed:$missing" >&2
exit 1
