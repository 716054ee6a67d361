#!/usr/bin/env bash
# Six processes want one lock at the same time, and one of them is killed while it holds it.
#
#     examples/demo.sh [build/holdfast]
#
# Prints what happens, and then checks it from the log that the processes wrote: nobody was inside
# together with another, every fence is greater than the one before, every update of an unprotected
# counter is there, and nothing of the killed holder was alive when the next one began. Exits 1 if
# any of that is not so.
set -euo pipefail

TURN_SECONDS=0.2
WAIT_SECONDS_MAX=60

# ---- what each process does while it has the lock (demo.sh calls itself through holdfast run) ----

log() { echo "$*" >>"$DEMO_DIR/log"; } # one short line is one write(2): the log is in true order

since_start() { printf '%5d ms' $(((${EPOCHREALTIME/[.,]/} - DEMO_STARTED_US) / 1000)); }

# A dead process whose parent has not yet asked for its end (a zombie) runs no more.
is_running() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) && [[ ${stat##*) } != [ZX]* ]]
}

take_turn() {
    local who=$1 count
    log "in $who $HOLDFAST_FENCE"
    echo "$(since_start)  $who has the lock, fence $HOLDFAST_FENCE"
    if is_running "$(<"$DEMO_DIR/victim")"; then
        log "ghost $who"
    fi
    count=$(<"$DEMO_DIR/counter") # read, dawdle, write: two at once would lose an update
    sleep "$TURN_SECONDS"
    echo $((count + 1)) >"$DEMO_DIR/counter"
    log "out $who $HOLDFAST_FENCE"
}

take_turn_without_end() {
    log "in victim $HOLDFAST_FENCE"
    echo "$(since_start)  victim has the lock, fence $HOLDFAST_FENCE, and will not let go"
    echo $$ >"$DEMO_DIR/victim.new"
    mv "$DEMO_DIR/victim.new" "$DEMO_DIR/victim"
    exec sleep 3600
}

case ${1:-} in
--turn)
    take_turn "$2"
    exit
    ;;
--victim) take_turn_without_end ;;
esac

# ---- the show ------------------------------------------------------------------------------------

holdfast=$(realpath "${1:-build/holdfast}")
self=$(realpath "${BASH_SOURCE[0]}")
if [[ ! -x $holdfast ]]; then
    echo "there is no $holdfast; run make first" >&2
    exit 1
fi

DEMO_DIR=$(mktemp -d)
DEMO_STARTED_US=${EPOCHREALTIME/[.,]/}
export DEMO_DIR DEMO_STARTED_US
export HOLDFAST_URL=file:$DEMO_DIR/locks
victim_pid=
worker_pids=()

end() {
    for pid in $victim_pid "${worker_pids[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -rf "$DEMO_DIR"
}
trap end EXIT

# Waits for something that is sure to come; the limit only keeps a broken build from hanging.
until_true() {
    local deadline=$((SECONDS + WAIT_SECONDS_MAX))
    until "$@"; do
        if ((SECONDS >= deadline)); then
            echo "VIOLATION: waited $WAIT_SECONDS_MAX s in vain for: $*"
            exit 1
        fi
        sleep 0.02
    done
}

is_dead() { ! is_running "$1"; }

waiting_is() {
    local shown
    shown=$("$holdfast" show printer --json 2>/dev/null | grep -o '"waiting": *true' | wc -l)
    ((shown >= $1))
}

echo "One lock, 'printer', in $DEMO_DIR/locks. Nobody coordinates but holdfast."
echo
echo 0 >"$DEMO_DIR/counter"
: >"$DEMO_DIR/log"

"$holdfast" run --purpose "demo: will be killed" printer -- "$self" --victim &
victim_pid=$!
disown "$victim_pid" # so that bash does not comment on its death
until_true test -e "$DEMO_DIR/victim"

for who in anna berta carla dora emma; do
    "$holdfast" run --purpose "demo: $who" printer -- "$self" --turn "$who" &
    worker_pids+=($!)
done
until_true waiting_is 5

echo
echo "\$ holdfast show printer"
"$holdfast" show printer
echo
echo "\$ kill -9 $victim_pid        (the victim's holdfast, without a chance to clean up)"
kill -KILL "$victim_pid"
until_true is_dead "$victim_pid"
victim_pid=

failed_runs=0
for pid in "${worker_pids[@]}"; do
    wait "$pid" || failed_runs=$((failed_runs + 1))
done
worker_pids=()

# ---- the judgement -------------------------------------------------------------------------------

violations=0
violation() {
    echo "VIOLATION: $*"
    violations=$((violations + 1))
}

inside=
last_fence=0
turns=0
while read -r event who fence; do
    case $event in
    in)
        [[ -z $inside || $inside == victim ]] || violation "$who came in while $inside was inside"
        ((fence > last_fence)) || violation "$who got fence $fence after fence $last_fence"
        inside=$who
        last_fence=$fence
        turns=$((turns + 1))
        ;;
    out) [[ $inside != "$who" ]] || inside= ;;
    ghost) violation "$who came in while the victim's command was still alive" ;;
    esac
done <"$DEMO_DIR/log"

echo
((turns == 6)) || violation "$turns turns were taken, not 6"
((failed_runs == 0)) || violation "$failed_runs of the 5 runs failed"
[[ $(<"$DEMO_DIR/counter") == 5 ]] || violation "the counter is $(<"$DEMO_DIR/counter"), not 5"
if ((violations > 0)); then
    exit 1
fi
echo "$turns turns, no two at once. 5 updates of an unprotected counter, none lost. Every fence is"
echo "greater than the one before. The killed holder's command was dead before the next one began."
