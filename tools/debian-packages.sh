#!/usr/bin/env bash
# Install what the tests need from Debian: each argument is `command:package[,package...]`.
# Installs only what is missing, with apt-get, as root or through a sudo that asks nothing; otherwise says
# the one command to run. A command of the form `python -m x` may be given with spaces.
set -euo pipefail

missing=()
for need in "$@"; do
    command=${need%:*}
    packages=${need##*:}
    if ! bash -c "$command" >/dev/null 2>&1 </dev/null; then
        missing+=(${packages//,/ })
    fi
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "lior: this system has no apt-get; install what Debian calls: ${missing[*]}" >&2
    exit 1
fi
if [ "$(id -u)" -eq 0 ]; then
    as_root=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
else
    echo "lior: missing Debian packages; install them with:" >&2
    echo "    sudo apt-get install ${missing[*]}" >&2
    exit 1
fi
echo "lior: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
install=(apt-get install --yes --quiet --no-install-recommends -o DPkg::Lock::Timeout=300)
"${as_root[@]}" "${install[@]}" "${missing[@]}" >/dev/null 2>&1 || {
    "${as_root[@]}" apt-get update --quiet -o DPkg::Lock::Timeout=300
    "${as_root[@]}" "${install[@]}" "${missing[@]}"
}
