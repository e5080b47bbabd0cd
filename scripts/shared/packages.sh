# Debian packages. Sourced after progress.sh.

# The headers of Boost by the number that this system has them under: Debian 12
# has 1.74, too old, without one; Ubuntu 24.04 and Debian 13 have no 1.81.
boost_package() {
  local codename
  codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release \
    2>/dev/null) || true
  case $codename in
    noble | trixie) say libboost1.83-dev ;;
    *) say libboost1.81-dev ;;
  esac
}

# Versions are those of Debian 12; CMakeLists.txt names the least ones. Ubuntu
# 24.04 (noble) has the others under the same names, as far as its list says:
# untried.
BOOST_PACKAGE=$(boost_package)
readonly BOOST_PACKAGE
readonly BUILD_PACKAGES=(
  g++ cmake ninja-build ccache mold git python3 python3-venv
  "$BOOST_PACKAGE" libfmt-dev libgtest-dev libgmock-dev libtomlplusplus-dev
  nlohmann-json3-dev libcli11-dev zlib1g-dev libcurl4-openssl-dev libssl-dev
  libarchive-dev libisal-dev libpng-dev libturbojpeg0-dev libzstd-dev
  libsentencepiece-dev)
readonly CHECK_PACKAGES=(
  clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev)
# Tests start and read these where they are.
readonly TEST_PACKAGES=(
  openmpi-bin slurm-wlm iproute2 tango-icon-theme zsh fish)
# Packages that `import torch` and its optimizers need; the build does without
# them, so torch is installed without them first. Without numpy, `import torch`
# prints a warning, and its tensors and data sets have no numpy().
readonly TORCH_IMPORTS=(
  typing-extensions==4.16.0 sympy==1.14.0 networkx==3.6.1 jinja2==3.1.6
  filelock==4.3.1 fsspec==2026.9.0 numpy==2.4.6)
# Python packages for the tests of python/; libtorch.sh puts them into .venv. Pillow
# as in .ci/run, which decodes images with it.
readonly PYTHON_TEST_PACKAGES=(
  pytest==9.2.0 pandas==3.1.1 safetensors==0.8.0
  matplotlib==3.11.2 mypy==2.4.1
  pillow==11.3.0 nanobind==3.1.0
  "${TORCH_IMPORTS[@]}"
  # Covering arrays: scripts/pairs.
  covertable==3.2.0
  # Trackers: the tests log runs to them offline, and read these again.
  wandb==0.31.0 mlflow-skinny==3.17.2)

# What python/native is compiled with.
readonly NANOBIND=nanobind==3.1.0  # also among the above

# missing_packages PACKAGE...: prints those that are not installed.
missing_packages() {
  command -v dpkg-query >/dev/null ||
    die "no dpkg here: the set-up is made for Debian 12; install by hand: $*"
  local installed
  installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' "$@" \
    2>/dev/null || true)"
  local package
  for package in "$@"; do
    [[ $installed == *" installed:$package "* ]] || say "$package"
  done
}

# Fills the array `as_root` of the caller.
find_root() {
  as_root=()
  ((EUID == 0)) && return
  command -v sudo >/dev/null ||
    die "to install $* run me as root, or install sudo"
  as_root=(sudo)
  sudo -v || die "sudo was refused, so I can't install $*"
}

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
}

# plan_packages PACKAGE...: says what is missing, for
# install_planned_packages.
plan_packages() {
  mapfile -t PACKAGES_TO_INSTALL < <(missing_packages "$@")
  ((${#PACKAGES_TO_INSTALL[@]})) || return 0
  say "To be installed by apt-get: ${PACKAGES_TO_INSTALL[*]}"
  plan_steps 2
}

install_planned_packages() {
  local as_root missing=("${PACKAGES_TO_INSTALL[@]}")
  ((${#missing[@]})) || return 0
  find_root "${missing[@]}"
  # A stale or unreachable list only matters if a package can't be had.
  quiet_step "Refreshing the package lists" apt update || true
  quiet_step "Installing ${#missing[@]} Debian packages" \
    apt install --no-install-recommends "${missing[@]}" ||
    die "apt-get can't install ${missing[*]}: $(reason_in_log)" \
      "(this set-up is made for Debian 12, and for the names of Ubuntu 24.04;" \
      "see $SLUICE_LOG)"
}

# install_packages PACKAGE...: silent when all is there.
install_packages() {
  plan_packages "$@"
  install_planned_packages
}
