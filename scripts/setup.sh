#!/usr/bin/env bash
# Installs what is missing (Debian 12), then configures and builds preset release. Says nothing about packages
# when all are there. The other scripts source this file and call its functions.
#   scripts/setup.sh            what building and the demo need
#   scripts/setup.sh --tests    also what the tests need
# THINWIRE_SKIP_PACKAGES=1 leaves the packages alone (other systems, containers without apt).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# One line per package: name, why.
build_packages() {
  cat <<'LIST'
g++ the C++20 compiler
cmake configures the build
ninja-build runs the build
ccache makes a second build short
pkg-config finds libzmq and xxhash
libeigen3-dev matrix products of the models
cppzmq-dev the far transport, C++ side
libzmq3-dev the far transport
libzstd-dev compresses dense payloads
libgloo-dev the near transport
libgtest-dev tests
libgmock-dev tests
libbenchmark-dev benches
libcli11-dev command line
libtomlplusplus-dev config files
nlohmann-json3-dev metrics and results
libspdlog-dev logging
libfmt-dev text of numbers
libxxhash-dev checksums of frames, hashes of replicas
libhwy-dev SIMD kernels
git names the revision in results
bible-kjv the default text
gnuplot-nox plots from the results
LIST
}

test_packages() {
  cat <<'LIST'
clang clang 14, for the fuzz targets
libclang-rt-14-dev libFuzzer and the sanitizers of clang
python3 reads JSON in the scripts
python3-yaml reads the Kubernetes manifests
openmpi-bin runs ranks under a real mpirun
shellcheck reads the Slurm script
LIST
}

is_installed() {
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# Reads "name why" lines; installs those that are missing.
install_missing() {
  local name why root=() missing=() reasons=()
  if [[ -n ${THINWIRE_SKIP_PACKAGES:-} ]]; then
    cat >/dev/null # a writer whose reader has left dies of it
    return 0
  fi
  while read -r name why; do
    is_installed "$name" && continue
    missing+=("$name")
    reasons+=("install $name: $why")
  done
  ((${#missing[@]})) || return 0
  if ! command -v apt-get >/dev/null; then
    echo "setup: no apt-get here; install these, then set THINWIRE_SKIP_PACKAGES=1: ${missing[*]}" >&2
    return 1
  fi
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "setup: neither root nor sudo; ask for: apt-get install ${missing[*]}" >&2
      return 1
    fi
    root=(sudo)
  fi
  printf '%s\n' "${reasons[@]}"
  local apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq
    -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null >/dev/null
}

# build_preset NAME [CMAKE ARGUMENT...]: configures once; ninja then notices every later change itself.
build_preset() {
  local preset=$1
  shift
  [[ -e build/$preset/build.ninja ]] || cmake --preset "$preset" "$@"
  cmake --build "build/$preset"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  build_packages | install_missing
  if [[ ${1:-} == --tests ]]; then test_packages | install_missing; fi
  build_preset release
fi
