#!/usr/bin/env bash
# The launchers of docs/hosts.md from a clean install: the sdist, a wheel of it in a fresh virtual environment, and the slow
# tests that start torchrun, mpirun and srun over two hosts, run by that environment's Python outside of the checkout.
#
#     benchmarks/clean_install.sh FOLDER [PYTEST_WORDS...]      # such as -k srun
#
# As root, with iproute2; MPIs where `python benchmarks peers` puts them, and Slurm's daemons, or these tests skip. What is in
# FOLDER already is not made again, so that a run which was ended goes on; take the folder away to begin anew. TORCH='==2.13.0'
# chooses a version of PyTorch.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1" && folder=$(cd "$1" && pwd)
shift
python=${PYTHON:-python3}
unset PYTHONPATH

if [ ! -e "$folder/dist/done" ]; then
  [ -x "$folder/builder/bin/python" ] || "$python" -m venv "$folder/builder"
  "$folder/builder/bin/pip" install -q build cmake ninja nanobind scikit-build-core
  if [ ! -d "$folder/source" ]; then
    "$folder/builder/bin/python" -m build -q --sdist --no-isolation --outdir "$folder/sdist" "$root"
    mkdir -p "$folder/unpacked"
    tar -xzf "$folder"/sdist/*.tar.gz --strip-components=1 -C "$folder/unpacked"
    mv "$folder/unpacked" "$folder/source"
  fi
  PATH="$folder/builder/bin:$PATH" "$folder/builder/bin/pip" wheel -q --no-deps --no-build-isolation \
    -C build-dir="$folder/build" -w "$folder/dist" "$folder/source"
  touch "$folder/dist/done"
fi

[ -x "$folder/venv/bin/python" ] || "$python" -m venv "$folder/venv"
. "$folder/venv/bin/activate"
if [ ! -e "$folder/venv/done" ]; then
  wheel=$(echo "$folder"/dist/*.whl)
  pip install -q "torch${TORCH:-}"
  pip install -q "$wheel[test,torch]"
  touch "$folder/venv/done"
fi

cd "$folder"
python -c 'import autotune, sys; assert autotune.__file__.startswith(sys.prefix), autotune.__file__; print(autotune.__file__)'
# The tests' hosts are made by benchmarks/, which is not installed; nothing else of the checkout is on the path.
mkdir -p beside && ln -sfn "$root/benchmarks" beside/benchmarks
PYTHONPATH="$folder/beside" pytest -p no:cacheprovider -m "slow or not slow" --basetemp="$folder/tmp" -k "on_two_hosts" "$@" \
  "$root/tests/launch/test_launchers.py" "$root/tests/launch/test_launchers_on_hosts.py"
