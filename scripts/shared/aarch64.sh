# Debian's packages for 64-bit ARM in a folder of their own: what the part of the
# house without LibTorch includes and links. Nothing of it is installed. Sourced
# after progress.sh.

readonly AARCH64_COMPILER=(g++-aarch64-linux-gnu)
readonly AARCH64_PACKAGES=(
  libboost1.81-dev libfmt-dev libfmt9 libgtest-dev libgmock-dev libisal-dev
  libisal2 libssl-dev libssl3 libtomlplusplus-dev nlohmann-json3-dev)

# apt_of_root ROOT ARGUMENT...: an apt-get that knows Debian for arm64 alone,
# and keeps what it knows in ROOT/apt.
apt_of_root() {
  local apt=$1/apt
  shift
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
  touch "$apt/status"
  printf 'deb [signed-by=%s] http://deb.debian.org/debian %s main\n' \
    /usr/share/keyrings/debian-archive-keyring.gpg \
    "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" >"$apt/sources.list"
  apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
    -o APT::Sandbox::User="$(id -un)" -o Dir::State="$apt" \
    -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" \
    -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=- \
    "$@"
}

unpack_aarch64_packages() {
  local root=$1 package
  rm -rf "$root"
  apt_of_root "$root" update || return
  mkdir "$root/packages" &&
    (cd "$root/packages" &&
      apt_of_root "$root" download "${AARCH64_PACKAGES[@]}") || return
  for package in "$root"/packages/*.deb; do
    dpkg-deb -x "$package" "$root" || return
  done
  rm -r "$root/packages" "$root/apt"
  printf '%s\n' "${AARCH64_PACKAGES[*]}" >"$root/complete"
}

# make_aarch64_root ROOT: silent when all is there.
make_aarch64_root() {
  [[ ! -e $1/complete || $(<"$1/complete") != "${AARCH64_PACKAGES[*]}" ]] ||
    return 0
  quiet_step "Unpacking Debian's packages for arm64" unpack_aarch64_packages \
    "$1" || die "can't get them from deb.debian.org: $(reason_in_log)"
}
