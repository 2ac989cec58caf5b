#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Gets servers and the programs that load them into the folder given, of the release that this machine has: they run
# with its loader and libraries, and those that it lacks come with them. The last line says what went wrong; a second
# run finds everything there.
set -eu
mkdir -p "$1"
servers=$(cd "$1" && pwd)
. "$(dirname "$0")/../debian.sh"
wanted="nginx-light wrk redis-server redis-tools memcached libmemcached-tools iperf3 sqlite3 libdb5.3-dev"

download() {
    . /etc/os-release
    debian_update "$servers" /var/lib/dpkg/status "$VERSION_CODENAME"
    # shellcheck disable=SC2046,SC2086 # both are lists
    debian_unpack $(debian_closure $wanted)
}

[ -e "$servers/root" ] || download
