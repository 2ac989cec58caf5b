#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Gets what the kernel lab runs on into the folder given: QEMU, a kernel, and busybox for the guest.
#
# apt believes that nothing is installed, so that QEMU comes with all of its libraries and its loader, whatever release
# this machine has. (An older QEMU would not do: up to 8.0, threads translate code that another one is just changing,
# and Linux changes its own.) The last line says what went wrong; a second run finds everything there.
set -eu
mkdir -p "$1"
lab=$(cd "$1" && pwd)
release=trixie
suite=${LAB_SUITE:-$release-backports}
. "$(dirname "$0")/../debian.sh"

# The kernel's package of the highest version.
kernel_package() {
    apt-cache -c "$apt" search --names-only '^linux-binary-[0-9].*-cloud-amd64$' |
        cut -d ' ' -f 1 | sort -V | tail -n 1
}

download() {
    debian_update "$lab" /dev/null $release "$suite"
    kernel=$(kernel_package)
    [ -n "$kernel" ] || give_up "$suite has no linux-binary package of a cloud kernel"
    # shellcheck disable=SC2046 # a list
    debian_unpack busybox-static "$kernel" $(debian_closure qemu-system-x86)
}

[ -e "$lab/root/usr/bin/qemu-system-x86_64" ] || download
