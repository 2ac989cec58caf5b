#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Gets what the kernel lab runs on into the folder given: QEMU, a kernel, and busybox for the guest.
#
# Debian packages from the mirror that this machine uses already, checked by apt against Debian's
# signatures, unpacked into that folder and never installed: neither root nor a change of the
# machine is needed. apt works with lists and a cache of its own, and believes that nothing is installed,
# so that QEMU comes with all of its libraries and its loader, whatever release this machine has. (An
# older QEMU would not do: up to 8.0, threads translate code that another one is just changing, and
# Linux changes its own.) The last line says what went wrong; a second run finds everything there.
set -eu
mkdir -p "$1"
lab=$(cd "$1" && pwd)
release=trixie
suite=${LAB_SUITE:-$release-backports}

give_up() {
    echo "$*"
    exit 1
}

# Debian's own source for this release, among apt's sources.
mirror() {
    apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        sed -n "s/^$VERSION_CODENAME main //p" | head -n 1
}

configure_apt() {
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    cat >"$lab/apt/lab.sources" <<END
Types: deb
URIs: $1
Suites: $release $suite
Components: main
$([ ! -r $keys ] || echo "Signed-By: $keys")
END
    cat >"$lab/apt/apt.conf" <<END
Dir::State::status "/dev/null";
Dir::State::lists "$lab/apt/lists";
Dir::Cache "$lab/apt/cache";
Dir::Etc::sourcelist "$lab/apt/lab.sources";
Dir::Etc::sourceparts "/dev/null";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::Retries "1";
Acquire::http::Timeout "20";
APT::Update::Error-Mode "any";
APT::Sandbox::User "root";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
END
}

# The kernel's package of the highest version.
kernel_package() {
    apt-cache -c "$lab/apt/apt.conf" search --names-only '^linux-binary-[0-9].*-cloud-amd64$' |
        cut -d ' ' -f 1 | sort -V | tail -n 1
}

# QEMU and all that it needs, each with its version.
qemu_packages() {
    apt-get -c "$lab/apt/apt.conf" -s -y --no-install-recommends install qemu-system-x86 |
        sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1=\2/p'
}

download() {
    [ "$(uname -m)" = x86_64 ] || give_up "its kernel and QEMU are for x86_64, this is $(uname -m)"
    for tool in apt-get apt-cache dpkg-deb; do
        command -v $tool >/dev/null || give_up "no $tool: the lab is made of Debian packages"
    done
    . /etc/os-release
    from=$(mirror)
    [ "$ID" = debian ] && [ -n "$from" ] ||
        give_up "apt has no source of Debian's main section here ($ID ${VERSION_CODENAME:-})"
    # The remains of an interrupted run may be of older packages.
    rm -rf "$lab/debs" "$lab/apt" "$lab/unpacking" "$lab/root"
    mkdir -p "$lab/apt/lists/partial" "$lab/apt/cache/archives/partial" "$lab/debs" "$lab/unpacking"
    configure_apt "$from"
    timeout 120 apt-get -c "$lab/apt/apt.conf" -q update ||
        give_up "\`apt-get update\` of Debian $release and $suite failed ($1/fetch.log says why)"
    kernel=$(kernel_package)
    [ -n "$kernel" ] || give_up "$suite has no linux-binary package of a cloud kernel"
    packages="busybox-static $kernel $(qemu_packages)"
    # shellcheck disable=SC2086 # a list
    (cd "$lab/debs" && timeout 300 apt-get -c "$lab/apt/apt.conf" -q download $packages) ||
        give_up "downloading Debian packages failed ($1/fetch.log says why)"
    for package in "$lab"/debs/*.deb; do dpkg-deb -x "$package" "$lab/unpacking"; done
    mv "$lab/unpacking" "$lab/root"
    rm -rf "$lab/debs" "$lab/apt"
}

[ -e "$lab/root/usr/bin/qemu-system-x86_64" ] || download "$1"
