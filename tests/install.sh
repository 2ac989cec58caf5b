#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs a program by `make install` into an empty folder, runs it there, and removes it: install.sh PROGRAM.
# Then asks what a build says where Rust is missing or too old.
set -eu
cd "$(dirname "$0")/.."
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM
fail() {
    echo "tests/install.sh: $1" >&2
    exit 1
}
# The program is given, so make must not build one.
make() { command make --no-print-directory -o build COREHOP="$program" DESTDIR="$folder" PREFIX=/opt/it "$@"; }

make install
[ "$("$folder/opt/it/bin/corehop" --version)" = "$("$program" --version)" ] || fail "another version was installed"
# A second time over the first, as an update does, with a page that the new version no longer has.
share=$folder/opt/it/share
for page in corehop-gone other; do install -m 644 /dev/null "$share/man/man1/$page.1"; done
make install >/dev/null
[ ! -e "$share/man/man1/corehop-gone.1" ] || fail "a page of the older version is left"
for page in corehop corehop-measure corehop-measure-synthetic; do
    grep -q "^\.TH $page 1" "$share/man/man1/$page.1" || fail "$page.1 is no man page"
done
grep -q 'complete -F _corehop' "$share/bash-completion/completions/corehop" || fail "no completions for bash"
grep -q '^#compdef corehop' "$share/zsh/site-functions/_corehop" || fail "no completions for zsh"
grep -q '^complete -c corehop' "$share/fish/vendor_completions.d/corehop.fish" || fail "no completions for fish"
strange=$(find "$folder" -type f ! -perm -o=r)
[ -z "$strange" ] || fail "files that others cannot read: $strange"
pages=$(find "$share/man/man1" -name 'corehop*' | wc -l)
make uninstall
left=$(find "$folder" ! -type d)
[ "$left" = "$share/man/man1/other.1" ] || fail "uninstall left or took: $left"

# A compiler that is too old, and then none.
tools=$folder/tools
mkdir "$tools"
for tool in sh sed sort dirname; do ln -s "$(command -v "$tool")" "$tools/$tool"; done
refused() {
    said=$(PATH="$tools" packaging/toolchain.sh 2>&1) && fail "the build begins with $1"
    case $said in
    *"needs Rust $needed or later"*"$2"*rustup*) ;;
    *) fail "with $1 the build says: $said" ;;
    esac
}
needed=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
refused "no compiler" "no cargo in PATH"
printf '#!/bin/sh\necho "rustc 1.9.0 (9fceb1b 2016-05-24)"\n' >"$tools/rustc"
cp "$tools/rustc" "$tools/cargo"
chmod +x "$tools/rustc" "$tools/cargo"
refused "an old compiler" "is version 1.9.0"
echo "the program, $pages man pages and three completions are installed and removed"
