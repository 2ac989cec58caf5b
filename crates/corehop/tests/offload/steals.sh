# SPDX-License-Identifier: MIT OR Apache-2.0
# In a PID namespace: corehop ($1) off-loads a program that leaves a daemon of root's behind, and ends. A process of
# another user then gets corehop's number, with a planted library behind the descriptors that corehop had, and the daemon
# starts programs.
set -e
daemon='while [ ! -e go ]; do sleep 0.05; done; true; cat /dev/null; true; touch finished'
"$1" offload -q --os-cores 1 -- sh -c "setsid sh -c '$daemon' </dev/null >/dev/null 2>errors & sleep 0.1" &
number=$!
wait "$number"
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    echo $((number - 1)) >/proc/sys/kernel/ns_last_pid
    setpriv --reuid=65534 --regid=65534 --clear-groups sleep 30 3<planted.so 4<planted.so 5<planted.so &
    thief=$!
    [ "$thief" -ne "$number" ] || break
    kill "$thief"
done
[ "$thief" -ne "$number" ] || echo stolen
sleep 0.3
touch go
for _ in $(seq 200); do
    [ ! -e finished ] || exit 0
    sleep 0.05
done
exit 1
