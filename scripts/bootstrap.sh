# shellcheck shell=bash
# Installs what Strata needs on this host, if it is missing: Debian packages, uv, the Python environment. Sourced by the
# scripts in this directory. Messages go to standard error, because the output of `scripts/lab env` is evaluated.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${STRATA_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/strata}
environment=${UV_PROJECT_ENVIRONMENT:-$root/.venv}
logs=$cache/logs
export PATH="$environment/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin" # sbin may be missing from root's PATH

# Not netavark: podman 4.3 would use it instead of the CNI plugins, which the lab's networks need.
# shellcheck disable=SC2034  # read by the scripts that source this file
packages=(ca-certificates containernetworking-plugins git iproute2 iptables mmdebstrap nftables openssh-client podman
  procps python3 runc skopeo)
# shellcheck disable=SC2034
test_packages=(chromium chromium-driver restic) # tests open pages in a browser and restore backups

unset PYTHONDONTWRITEBYTECODE # otherwise, every start compiles Strata's modules again

say() { printf '%s\n' "$*" >&2; }

die() { # message, fix
  say "✗ $1"
  say "  fix: $2"
  exit 1
}

# logged NAME WHAT COMMAND…: runs a command, writes its output to a log, prints its duration, explains a failure.
logged() {
  local log="$logs/bootstrap-$1.log" what=$2 begin=$SECONDS status=0
  shift 2
  mkdir -p "$logs"
  say "  $what …"
  "$@" >"$log" 2>&1 || status=$?
  if ((status != 0)); then
    tail -n 15 "$log" | sed 's/^/    /' >&2
    die "$what: \`$*\` ended with status $status (log: $log)" \
      "correct what the last lines report (network, package index, disk), then run the same command again"
  fi
  say "  $what: $((SECONDS - begin)) s"
}

preflight() {
  command -v python3 >/dev/null || die "python3 is not installed" "apt-get install --no-install-recommends python3"
  python3 -I -B "$root/lab/src/strata_lab/preflight.py" || exit 1
}

install_packages() { # installs those of the named Debian packages that are missing
  local installed missing=() package
  command -v dpkg-query >/dev/null || die "dpkg is not installed" "use a Debian 12 host"
  # dpkg-query fails on a package it does not know; such a package is missing, too
  installed=$(dpkg-query --show --showformat '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qx "$package installed" <<<"$installed" || missing+=("$package")
  done
  ((${#missing[@]} == 0)) && return
  [[ $(id -u) == 0 ]] || die "Debian packages are missing: ${missing[*]}" "as root: apt-get install ${missing[*]}"
  logged apt-update "package lists" apt-get --quiet --option DPkg::Lock::Timeout=120 update
  logged apt-install "Debian packages: ${missing[*]}" env DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes \
    --no-install-recommends --option DPkg::Lock::Timeout=120 install "${missing[@]}"
}

pinned() { # prints the version of a Python package in versions.yaml
  sed -n "/^packages:/,/^[^ #]/s/^  $1: *\"\{0,1\}\([0-9.]*\).*/\1/p" "$root/versions.yaml"
}

install_uv() {
  command -v uv >/dev/null && return
  # in a virtual environment, because Debian's Python refuses packages outside of one (PEP 668)
  if [[ ! -x $cache/uv/bin/uv ]]; then
    python3 -c 'import ensurepip' 2>/dev/null || install_packages python3-venv
    mkdir -p "$cache"
    rm -rf "$cache/uv"
    logged uv-venv "virtual environment for uv" python3 -m venv "$cache/uv"
    logged uv "uv $(pinned uv)" "$cache/uv/bin/pip" install --quiet "uv==$(pinned uv)"
  fi
  export PATH="$cache/uv/bin:$PATH"
}

install_environment() {
  local inputs
  inputs=$(sha256sum "$root/uv.lock" "$root/pyproject.toml" | cut -d' ' -f1 | tr '\n' ' ')
  if [[ -x $environment/bin/strata && $(cat "$environment/.strata-inputs" 2>/dev/null) == "$inputs" ]]; then
    return
  fi
  # Use the system's Python: uv would otherwise download one, from a host that may be unreachable.
  # Compile once here: Ansible, Pulumi and strata start hundreds of times.
  logged uv-sync "Python environment" env UV_PYTHON_DOWNLOADS=never uv sync --frozen --compile-bytecode --project "$root"
  printf '%s' "$inputs" >"$environment/.strata-inputs"
}
