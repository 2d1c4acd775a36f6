#!/bin/sh
# Compiles every .cu file of this folder to the .ptx file beside it, with the nvcc of the PyPI wheels.
#
#   tests/kernels/build.sh [VENV]      VENV: a Python virtual environment; made and filled if it isn't there
#
# The PTX is committed, so that the tests need neither Python nor nvcc: run this after an edit to a kernel.
# A file's first line may say `// arch: compute_NN`; without it the oldest architecture that nvcc 13.0 knows is used.
# With -lineinfo each instruction carries its source line, which the simulator's errors show.
set -eu
folder=$(cd "$(dirname "$0")" && pwd)
venv=${1:-"${TMPDIR:-/tmp}/ptx-simulator-nvcc"}
if [ ! -d "$venv" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet 'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-crt==13.0.*' \
        'nvidia-nvvm==13.0.*' 'nvidia-cuda-cccl==13.0.*'
fi
nvcc=$(find "$venv" -path '*/bin/nvcc' | head -n 1)
if [ -z "$nvcc" ]; then
    echo "no nvcc in $venv: remove the folder to have it filled again, or install the wheel nvidia-cuda-nvcc" >&2
    exit 1
fi
toolkit=$(dirname "$(dirname "$nvcc")")
cd "$folder"
for source in *.cu; do
    architecture=$(sed -n '1s,^// arch: \(compute_[0-9a-z]*\).*,\1,p' "$source")
    "$nvcc" -O3 -lineinfo -std=c++17 -ptx -arch="${architecture:-compute_75}" -I"$toolkit/include" -I"$toolkit/include/cccl" \
        -o "${source%.cu}.ptx" "$source"
    # Source files by name only: the same PTX wherever it is built.
    sed -i -E 's,^(\s*\.file\s+[0-9]+ ")[^"]*/,\1,' "${source%.cu}.ptx"
    echo "$source -> ${source%.cu}.ptx (${architecture:-compute_75})"
done
