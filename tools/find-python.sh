#!/usr/bin/env bash
# Print a Python that can make the environment: 3.11 or newer, with the venv module.
# PYTHON names one to use instead of searching.
set -euo pipefail

without_venv=
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    command -v "$candidate" >/dev/null || continue
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
    if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
        command -v "$candidate"
        exit 0
    fi
    without_venv=${without_venv:-$candidate}
done

if [ -n "$without_venv" ]; then
    package=$("$without_venv" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    bash "$(dirname "$0")/debian-packages.sh" "$without_venv -c \"import ensurepip, venv\":$package" >&2
    "$without_venv" -c 'import ensurepip, venv' && command -v "$without_venv"
    exit
fi
echo "lior: needs Python 3.11 or newer, and found none${PYTHON:+ in PYTHON=$PYTHON}. On Debian 12, Ubuntu 24.04 or later:" >&2
echo "    sudo apt-get install python3 python3-venv" >&2
exit 1
