#!/usr/bin/env bash
# What to run first on a machine with a GPU: at most five minutes, in stages that each write their
# result at once.
#
#   FASTRCAPS_DATA=data OUT=reports/gpu tests/benchmarks/gpu_check.sh
#
# Needs torch, numpy, safetensors and MNIST. Correctness against the CPU, seconds per epoch of
# 60,000 images at batch 1, 16 and 128 (from a number of steps, scaled, and said so), evaluation of
# 10,000 images, then a whole warm_adabatch trial of 30 epochs as far as the time allows.
# DEVICE=cpu STEPS=2 EPOCHS=1 IMAGES=256 checks the script itself where there is no GPU.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
out=${OUT:-reports/gpu}
mkdir -p "$out"
name="$out/$(date -u +%Y-%m-%d)-check.txt"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
failed=0

stage() {
    local seconds=$1
    shift
    timeout --kill-after=5 "$seconds" python3 -m tests.benchmarks.gpu_check "$@" \
        --device "${DEVICE:-cuda}" 2>&1 | tee -a "$name"
    local code=${PIPESTATUS[0]}
    [ "$code" -eq 124 ] && echo "$1: stopped after $seconds s" | tee -a "$name"
    [ "$code" -eq 0 ] || failed=1
}

: >"$name"
stage 30 machine
stage 60 correctness
stage 60 speed --steps "${STEPS:-2000}"
stage 30 evaluation
stage 120 trial --epochs "${EPOCHS:-30}" ${IMAGES:+--images "$IMAGES"}
echo "written to $name"
exit "$failed"
