#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Removes what install.sh put below a folder: uninstall.sh FOLDER. Folders stay, because other programs use them.
set -eu
folder=$1
rm -f "$folder/bin/corehop" "$folder/share/man/man1/corehop.1" "$folder/share/man/man1/corehop-"*.1 \
    "$folder/share/bash-completion/completions/corehop" "$folder/share/zsh/site-functions/_corehop" \
    "$folder/share/fish/vendor_completions.d/corehop.fish"
echo "corehop is removed from $folder"
