#!/usr/bin/env bash
# Counts to $COUNT and survives being killed at any moment. All it knows of gpujob are environment variables and files:
#
#   GPUJOB_RESUME_FROM          a checkpoint of ours to go on from; empty at the first start
#   GPUJOB_CHECKPOINT_DIR       where checkpoints go, one folder each, its name ending in the step
#   GPUJOB_CHECKPOINT_INTERVAL  seconds between checkpoints; empty when it is our choice
#   GPUJOB_METRICS              a file to append JSON lines to
#   GPUJOB_OUTPUT_DIR           what is in it when we exit 0 is the job's result
#   SIGTERM                     save now and exit
set -euo pipefail

count=${COUNT:-20}
step_seconds=${STEP_SECONDS:-0.5}
interval=${GPUJOB_CHECKPOINT_INTERVAL:-2}
interval=${interval%.*}

# Everything a later attempt needs to go on: which step we are at, and what has come of it so far.
step=0
sum=0
if [[ -n ${GPUJOB_RESUME_FROM:-} ]]; then
    read -r step sum <"$GPUJOB_RESUME_FROM/state"
    echo "going on from step $step"
fi

# The state first, COMPLETE last: a checkpoint without it does not exist, however far its writing got.
save() {
    local folder=$GPUJOB_CHECKPOINT_DIR/step-$step
    mkdir -p "$folder"
    echo "$step $sum" >"$folder/state"
    touch "$folder/COMPLETE"
    saved=$step
    saved_at=$SECONDS
    echo "saved step $step"
}

stop=
trap 'stop=yes' TERM
saved=$step
saved_at=$SECONDS

while ((step < count)); do
    # The work. In the background, so that SIGTERM interrupts the waiting and not only the next step.
    sleep "$step_seconds" &
    wait $! || true
    if [[ $stop ]]; then
        echo "told to stop at step $step"
        ((saved == step)) || save
        exit 143
    fi
    step=$((step + 1))
    sum=$((sum + step * step))

    printf '{"step": %d, "total_steps": %d, "loss": %d.%03d}\n' \
        "$step" "$count" $((1000 / step / 1000)) $((1000 / step % 1000)) >>"$GPUJOB_METRICS"
    ((SECONDS - saved_at < interval)) || save
done

((saved == step)) || save
mkdir -p "$GPUJOB_OUTPUT_DIR"
echo "counted to $step, the sum of squares is $sum" | tee "$GPUJOB_OUTPUT_DIR/count.txt"
