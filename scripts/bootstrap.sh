# shellcheck shell=bash
# Has what Strata needs on this machine: Debian packages, uv, the Python environment. Sourced by the scripts here.
# What is there already is left alone; everything is said on standard error, so that `scripts/lab env` stays clean.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${STRATA_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/strata}
environment=${UV_PROJECT_ENVIRONMENT:-$root/.venv}
logs=$cache/logs
export PATH="$environment/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin" # root's PATH may lack sbin

# Not netavark: podman 4.3 would prefer it to the CNI plugins, which the lab's networks are made with.
# shellcheck disable=SC2034  # read by the scripts that source this file
packages=(ca-certificates containernetworking-plugins git iproute2 iptables mmdebstrap nftables openssh-client podman
  procps python3 runc skopeo)
# shellcheck disable=SC2034
test_packages=(chromium chromium-driver restic) # the tests look at pages as a user does, and restore backups

unset PYTHONDONTWRITEBYTECODE # or every start compiles Strata's own modules anew

say() { printf '%s\n' "$*" >&2; }

die() { # message, fix
  say "✗ $1"
  say "  fix: $2"
  exit 1
}

# logged NAME WHAT COMMAND…: runs a command with its output in a log, shows how long it takes, explains a failure.
logged() {
  local log="$logs/bootstrap-$1.log" what=$2 begin=$SECONDS status=0
  shift 2
  mkdir -p "$logs"
  say "  $what …"
  "$@" >"$log" 2>&1 || status=$?
  if ((status != 0)); then
    tail -n 15 "$log" | sed 's/^/    /' >&2
    die "$what: \`$*\` ended with status $status (log: $log)" \
      "fix what the last lines report (network, package index, disk), and run the same command again"
  fi
  say "  $what: $((SECONDS - begin)) s"
}

preflight() {
  command -v python3 >/dev/null || die "there is no python3" "apt-get install --no-install-recommends python3"
  python3 -I -B "$root/lab/src/strata_lab/preflight.py" || exit 1
}

install_packages() { # Debian packages that are to be there
  local installed missing=() package
  command -v dpkg-query >/dev/null || die "there is no dpkg" "use a Debian 12 machine"
  # A package that dpkg has never heard of makes it fail, which only means that it is missing.
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

pinned() { # version of a Python package in versions.yaml
  sed -n "/^packages:/,/^[^ #]/s/^  $1: *\"\{0,1\}\([0-9.]*\).*/\1/p" "$root/versions.yaml"
}

install_uv() {
  command -v uv >/dev/null && return
  # A virtual environment of its own: Debian's Python refuses packages elsewhere (PEP 668).
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
  # The system's Python: uv would else download one from a host that may be out of reach.
  # Compiled once here: Ansible, Pulumi and strata start hundreds of times.
  logged uv-sync "Python environment" env UV_PYTHON_DOWNLOADS=never uv sync --frozen --compile-bytecode --project "$root"
  printf '%s' "$inputs" >"$environment/.strata-inputs"
}
