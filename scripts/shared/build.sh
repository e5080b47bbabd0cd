# Configuring and building. Sourced after progress.sh and libtorch.sh.

# As many compilers as there are cores, but no more than memory allows: a file
# that includes LibTorch takes 1.9 GB.
build_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ {print int($2 / 1992294)}' /proc/meminfo)
  if ((memory < 1)); then memory=1; fi
  echo $((cores < memory ? cores : memory))
}

is_configured() {
  local folder=$1 torch=$2
  [[ -e $folder/build.ninja ]] &&
    sed -n 's/^LibTorch_ROOT:[A-Z]*=//p' "$folder/CMakeCache.txt" |
    grep -qxF -- "$torch"
}

chosen_torch() {
  [[ ! -s $TORCH_CHOICE ]] || printf '%s\n' "$(<"$TORCH_CHOICE")"
}

# build PRESET FOLDER TORCH [CMAKE ARGUMENTS]
# Builds $BUILD_TARGET, or everything.
build() {
  local preset=$1 folder=$2 torch=$3
  shift 3
  if ! is_configured "$folder" "$torch"; then
    say "Configuring ${folder#"$SLUICE_ROOT"/}"
    cmake --preset "$preset" -S "$SLUICE_ROOT" -B "$folder" \
      "-DLibTorch_ROOT=$torch" "$@" || die "cmake failed; see above"
  fi
  say "Building ${folder#"$SLUICE_ROOT"/}"
  ninja -C "$folder" -j "$(build_jobs)" "${BUILD_TARGET:-all}" || die "the build failed; see above"
}
