# Sourced by the other scripts: where things are, and how they report.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export LC_ALL=C.UTF-8 PIP_DISABLE_PIP_VERSION_CHECK=1

venv="$root/.build/venv"
openfm="$root/.build/openfm"

say() { printf '%s\n' "$*" >&2; }
die() { say "$(basename "$0"): $*"; exit 1; }

# Puts the Swift toolchain on PATH: the one that is there, else the usual place of the tarball.
need_swift() {
  command -v swift >/dev/null || PATH="$PATH:/opt/swift/usr/bin"
  command -v swift >/dev/null || die "no Swift on PATH or in /opt/swift/usr/bin; install Swift 6.3 \
(swift.org, Debian 12) and put its usr/bin on PATH"
  export PATH
}

# Sets `python` to the Python that the development environment is made of.
need_python() {
  local candidate
  for candidate in "${OPENFM_PYTHON:-}" python3 /usr/bin/python3; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      python=$(command -v "$candidate")
      return
    fi
  done
  die "no Python 3.10 or newer; install one, or name it with OPENFM_PYTHON=/path/python3"
}

need_venv() {
  [ -x "$venv/bin/python" ] || die "no development environment yet; run scripts/setup first"
}
