#!/usr/bin/env bash
# What to run first on a machine with a GPU: at most five minutes, in stages that are stopped when
# their time is up and write each figure at once.
#
#   FASTRCAPS_DATA=data OUT=reports/gpu tests/benchmarks/gpu_check.sh
#
# Needs Python 3.11, torch with CUDA (triton comes with it), numpy, safetensors and MNIST. In order:
# the machine; routing kernels against torch; gradients against the CPU in every precision and
# recorded against eager steps; seconds per epoch of 60,000 images at batch 128, 16 and 1 (batch 1
# from 2,000 steps, scaled), evaluation of 10,000 and peak memory; the kernels of a step; a whole
# warm_adabatch trial of 30 epochs, as far as the time allows.
#
#   PRECISION=bf16     what speed, profile and trial train in: fp32, tf32 or bf16
#   STAGES="a b"       only these
#   WHEELS=folder      wheels of what is missing, installed without a network into TARGET (a new
#                      temporary folder unless given). safetensors is compiled, so take the wheel
#                      of that machine's Python and processor, here for 3.12 on x86-64:
#                        pip download --no-deps --only-binary=:all: --python-version 3.12 \
#                          --platform manylinux2014_x86_64 -d folder safetensors
#   PYTHON=python3     the Python that has torch
#   DEVICE=cpu STEPS=2 BATCH=2 EPOCHS=1 IMAGES=64 checks the script itself where there is no GPU.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
out=${OUT:-reports/gpu}
mkdir -p "$out" || exit 1
name="$out/$(date -u +%Y-%m-%d)-check.txt"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
python=${PYTHON:-python3}
failed=0
: "${FASTRCAPS_DATA:?must name the folder with MNIST}"

: >"$name" || exit 1
if [ -n "${WHEELS:-}" ]; then
    target=${TARGET:-$(mktemp -d)}
    "$python" -m pip install --quiet --no-index --no-deps --no-compile --upgrade \
        --target "$target" "$WHEELS"/*.whl 2>&1 | tee -a "$name"
    export PYTHONPATH="$PYTHONPATH:$target"
fi

stage() {
    local seconds=$1 stage=$2
    shift 2
    [[ " ${STAGES:-$stage} " == *" $stage "* ]] || return 0
    local begun=$SECONDS
    echo "== $stage" | tee -a "$name"
    timeout --kill-after=2 "$seconds" "$python" -m tests.benchmarks.gpu_check "$stage" \
        --device "${DEVICE:-cuda}" --precision "${PRECISION:-bf16}" \
        ${IMAGES:+--images "$IMAGES"} "$@" 2>&1 | tee -a "$name"
    local code=${PIPESTATUS[0]}
    case $code in
        0) ;;
        124 | 137) echo "$stage: stopped after $seconds s" | tee -a "$name" ;;
        *) echo "$stage: failed with code $code" | tee -a "$name" ;;
    esac
    [ "$code" -eq 0 ] || failed=1
    echo "($((SECONDS - begun)) s)" | tee -a "$name"
}

# 300 seconds in all.
stage 20 machine
stage 40 routing
stage 45 correctness --batch "${BATCH:-16}"
stage 60 speed --steps "${STEPS:-2000}"
stage 20 profile
stage 115 trial --epochs "${EPOCHS:-30}"
echo "written to $name"
exit "$failed"
