#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# complete.bash FILE WORD…: what the completion in FILE offers for the last word, in one line. The words are as bash
# cuts a line: `--device=c` is the three words `--device` `=` `c`.
# shellcheck source=/dev/null
source "$1" || exit 1
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
function=$(complete -p "$1" | sed 's/.*-F \([^ ]*\).*/\1/')
"$function" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
echo "offered:" "${COMPREPLY[@]}"
