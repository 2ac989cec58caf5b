#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs a program with its man pages and completions below a folder: install.sh PROGRAM FOLDER.
# The pages and completions come from the program, so that they always describe the installed version.
set -eu
program=$1 folder=$2
umask 022
# Prints what the program says only if the program fails.
completions() {
    said=$("$program" help --completions "$1" 2>&1 >"$folder/share/$2") || {
        echo "$said" >&2
        exit 1
    }
}
install -d "$folder/bin" "$folder/share/man/man1" "$folder/share/bash-completion/completions" \
    "$folder/share/zsh/site-functions" "$folder/share/fish/vendor_completions.d"
install -m 755 "$program" "$folder/bin/corehop"
# Pages of an older version may have other names.
rm -f "$folder/share/man/man1/corehop.1" "$folder/share/man/man1/corehop-"*.1
"$program" help --man "$folder/share/man/man1" >/dev/null
completions bash bash-completion/completions/corehop
completions zsh zsh/site-functions/_corehop
completions fish fish/vendor_completions.d/corehop.fish
echo "corehop is installed: $folder/bin/corehop"
