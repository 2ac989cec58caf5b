#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Gets servers and the programs that load them into the folder given, of the release that this machine has: they run
# with its loader and libraries, and those that it lacks come with them. The last line says what went wrong; a second
# run finds everything there.
set -eu
mkdir -p "$1"
servers=$(cd "$1" && pwd)
. "$(dirname "$0")/../../../tests/debian.sh"
wanted="nginx-light wrk redis-server redis-tools memcached libmemcached-tools iperf3 sqlite3 libdb5.3-dev
    mariadb-server sysbench rt-tests libtbb-dev default-jre-headless libeclipse-jdt-core-java"

download() {
    . /etc/os-release
    debian_update "$servers" /var/lib/dpkg/status "$VERSION_CODENAME"
    # shellcheck disable=SC2046,SC2086 # both are lists
    debian_unpack $(debian_closure $wanted)
    find "$servers/root" -type l -lname '/*' | while read -r link; do inward "$link"; done
    echo "$wanted" >"$servers/wanted"
}

# A link to a file that was unpacked leads there, and not to where it would be installed.
inward() {
    to=$servers/root$(readlink "$1")
    [ ! -e "$to" ] || ln -sfnr "$to" "$1"
}

# What an older list has unpacked lacks some.
[ -e "$servers/root" ] && [ "$(cat "$servers/wanted" 2>/dev/null)" = "$wanted" ] || download
