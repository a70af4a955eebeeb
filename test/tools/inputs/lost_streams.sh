# SPDX-License-Identifier: Apache-2.0
# lost_streams.sh FOLDER INPUTS: runs each tool and verb with standard error and standard output that cannot be
# written, and tells each exit code that is not the one wanted.
cd "$1" || exit 1
inputs=$2 count=0
module=$inputs/affine.tgir

# check WANTED COMMAND: of a command that ends in 0 and prints, or fails and tells why.
check() {
  wanted=$1 count=$((count + 1))
  shift
  case "$1 $2" in "tg-run "[a-z]*) tool="$1 $2" ;; *) tool=$1 ;; esac
  ("$@" </dev/null >out 2>&-) ; code=$?
  [ $code = $wanted ] || echo "wrong: exit $code with standard error closed: $*"
  ("$@" </dev/null >out 2>/dev/full); code=$?
  [ $code = $wanted ] || echo "wrong: exit $code with standard error full: $*"
  [ $wanted = 0 ] || return
  ("$@" </dev/null >/dev/full 2>err); code=$?
  [ $code = 1 ] || echo "wrong: exit $code with standard output full: $*"
  [ "$(grep -c "^$tool: error: cannot write standard output" err)" = 1 ] || echo "wrong: not told once: $*"
  ("$@" </dev/null >&- 2>err); code=$?
  [ $code = 1 ] || echo "wrong: exit $code with standard output closed: $*"
}

check 0 tg-opt $module
check 0 tg-opt --list-passes
check 0 tg-opt --help
check 1 tg-opt nosuch.tgir
check 2 tg-opt --nosuch
check 0 tg-grad --help
check 0 tg-run --help
check 0 tg-run --version
check 1 tg-run nosuch
check 0 tg-run exec $module --device=interp --entry=predict --input=x=1
check 1 tg-run exec nosuch.tgir
check 0 tg-run devices
check 0 tg-run train --help
check 0 tg-run train $module --device=interp --pipeline=append-grad,append-sgd --data=x=1,y=1 --steps=2 --run-dir=none
check 1 tg-run train $module --device=interp --data=x=1,y=1 --steps=2 --run-dir=none
check 0 tg-run train $module --device=interp --pipeline=append-grad,append-sgd --data=x=1,y=1 --dry-run
check 0 tg-run eval run --data=x=@x.npy,y=@y.npy
check 0 tg-run inspect run
check 0 tg-run inspect $module
check 0 tg-run plot run -o page.html
check 0 tg-run verify $module --devices=cpu --entry=predict
check 0 tg-run export run --entry=predict --device=cpu --force -o bundle
check 1 tg-run sample run
echo "$count commands"
