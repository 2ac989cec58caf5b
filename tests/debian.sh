# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced: gets Debian packages into a folder, checked by apt against Debian's signatures, unpacked there and never
# installed: neither root nor a change of the machine is needed. apt works with lists and a cache of its own.
# What fails is said in one line on stdout, and ends the script.

give_up() {
    echo "$*"
    exit 1
}

# Debian's own source for this release, among apt's sources; or a reason.
debian_mirror() {
    [ "$(uname -m)" = x86_64 ] || give_up "the packages are for x86_64, this is $(uname -m)"
    for tool in apt-get apt-cache dpkg-deb; do
        command -v $tool >/dev/null || give_up "no $tool: this needs Debian packages"
    done
    . /etc/os-release
    mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        sed -n "s/^$VERSION_CODENAME main //p" | head -n 1)
    [ "$ID" = debian ] && [ -n "$mirror" ] ||
        give_up "apt has no source of Debian's main section here ($ID ${VERSION_CODENAME:-})"
}

# debian_update FOLDER STATUS SUITE...: reads the suites' lists. STATUS names the packages that are there already
# (/dev/null: none). $apt is the configuration for apt-get and apt-cache then.
debian_update() {
    folder=$1 status=$2
    shift 2
    debian_mirror
    # The remains of an interrupted run may be of older packages.
    rm -rf "$folder/debs" "$folder/apt" "$folder/unpacking" "$folder/root"
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" "$folder/debs" "$folder/unpacking"
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    apt=$folder/apt/apt.conf
    cat >"$folder/apt/debian.sources" <<END
Types: deb
URIs: $mirror
Suites: $*
Components: main
$([ ! -r $keys ] || echo "Signed-By: $keys")
END
    cat >"$apt" <<END
Dir::State::status "$status";
Dir::State::lists "$folder/apt/lists";
Dir::Cache "$folder/apt/cache";
Dir::Etc::sourcelist "$folder/apt/debian.sources";
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
    timeout 120 apt-get -c "$apt" -q update || give_up "\`apt-get update\` of Debian $* failed ($folder/fetch.log says why)"
}

# Packages and all that they need and that is not there, each with its version.
debian_closure() {
    apt-get -c "$apt" -s -y --no-install-recommends install "$@" | sed -n 's/^Inst \([^ ]*\) .*(\([^ ]*\) .*/\1=\2/p'
}

# Downloads packages and unpacks them into $folder/root.
debian_unpack() {
    (cd "$folder/debs" && timeout 300 apt-get -c "$apt" -q download "$@") ||
        give_up "downloading Debian packages failed ($folder/fetch.log says why)"
    for package in "$folder"/debs/*.deb; do dpkg-deb -x "$package" "$folder/unpacking"; done
    mv "$folder/unpacking" "$folder/root"
    rm -rf "$folder/debs" "$folder/apt"
}
