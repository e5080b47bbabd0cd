# Finds or installs LibTorch. Sourced after progress.sh, and after packages.sh
# where Python packages are installed.
#
# The choice is the folder that holds include/ and lib/. It is kept in
# build/libtorch, which CMakeLists.txt reads too; delete that file to choose
# again.

readonly TORCH_PINNED=2.13.0
readonly TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu
readonly TORCH_CHOICE="$SLUICE_ROOT/build/libtorch"
readonly TORCH_VENV="$SLUICE_ROOT/.venv"

# torch_folder PATH: prints the folder with include/ and lib/ at or below PATH.
torch_folder() {
  local folder
  for folder in "$1" "$1/libtorch" "$1/torch"; do
    if [[ -e $folder/include/ATen/ATen.h ]]; then
      (cd "$folder" && pwd)
      return
    fi
  done
  return 1
}

torch_version() {
  local header
  for header in torch/headeronly/version.h torch/csrc/api/include/torch/version.h; do
    [[ -e $1/include/$header ]] || continue
    sed -nE 's/^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)$/\2/p' \
      "$1/include/$header" | paste -sd .
    return
  done
}

torch_is_supported() { [[ $(torch_version "$1") =~ ^2\.1[1-3]\. ]]; }

has_nvidia_driver() {
  [[ -e /proc/driver/nvidia/version ]] || command -v nvidia-smi >/dev/null
}

torch_of_python_on_path() {
  local found
  found=$(python3 -c 'import importlib.util as util
print(util.find_spec("torch").submodule_search_locations[0])' 2>/dev/null) ||
    return 1
  torch_folder "$found"
}

remember_torch() {
  mkdir -p "$(dirname "$TORCH_CHOICE")"
  printf '%s\n' "$1" >"$TORCH_CHOICE"
  say "LibTorch $(torch_version "$1") in $1"
}

remembered_torch() {
  local folder
  [[ -s $TORCH_CHOICE ]] && folder=$(<"$TORCH_CHOICE") &&
    [[ -e $folder/include/ATen/ATen.h ]] && torch_is_supported "$folder"
}

pip_install() {
  "$1/bin/python" -m pip install --disable-pip-version-check --no-input "${@:2}"
}

make_venv() {
  [[ -x $1/bin/pip ]] || /usr/bin/python3 -m venv "$1"
}

readonly MPI_PINNED=5.0.2

# The MPI that CMakeLists.txt finds in .venv.
install_mpi() {
  make_venv "$TORCH_VENV" && pip_install "$TORCH_VENV" "mpich==$MPI_PINNED"
}

# install_torch_imports VENV: makes `import torch` work there.
install_torch_imports() {
  "$1/bin/python" -c 'import typing_extensions, sympy, networkx, jinja2,\
    filelock, fsspec, numpy' 2>/dev/null || pip_install "$1" "${TORCH_IMPORTS[@]}"
}

# What the tests of the Python package need beside torch.
python_test_packages_are_there() {
  local said="$TORCH_VENV/python-test-packages"
  [[ -e $said && $(<"$said") == "${PYTHON_TEST_PACKAGES[*]}" ]]
}

install_python_test_packages() {
  make_venv "$TORCH_VENV" &&
    pip_install "$TORCH_VENV" "${PYTHON_TEST_PACKAGES[@]}" &&
    printf '%s\n' "${PYTHON_TEST_PACKAGES[*]}" \
      >"$TORCH_VENV/python-test-packages"
}

# install_cuda_libraries VENV SITE [PIP ARGUMENTS]: what the CUDA wheel in the
# folder SITE loads at run time, in the versions that the wheel names. The
# wheel's other requirements are for Python only.
install_cuda_libraries() {
  local venv=$1 site=$2 wanted
  [[ -e $site/torch/lib/libtorch_cuda.so ]] || return 0
  wanted=$(sed -nE 's/^Requires-Dist: ((nvidia|cuda-toolkit).*==.*)$/\1/p' \
    "$site"/torch-*.dist-info/METADATA | grep -v 'extra ==')
  pip_install "$venv" "${@:3}" -r <(printf '%s\n' "$wanted")
}

site_packages() { printf '%s\n' "$1"/lib/python3*/site-packages; }

# A short patience with PyTorch's own index, so that a machine which reaches
# only its configured sources is served too; these may have the same build.
install_cpu_wheel() {
  pip_install "$1" --no-deps --retries 0 --timeout 5 \
    --extra-index-url "$TORCH_CPU_INDEX" "torch==$2+cpu" &&
    install_torch_imports "$1" && return
  printf '%s\n' "No CPU build to be had; taking what the configured sources" \
    "have as torch $2 (with gigabytes of CUDA libraries if it is that build)."
  install_cuda_wheel "$1" "$2"
}

install_cuda_wheel() {
  pip_install "$1" --no-deps "torch==$2" && install_torch_imports "$1" &&
    install_cuda_libraries "$1" "$(site_packages "$1")"
}

# plan_torch_wheel BUILD VERSION VENV: says what install_torch_wheel will do.
plan_torch_wheel() {
  say "To be installed by pip into ${3#"$SLUICE_ROOT"/}: torch $2 ($1)"
  plan_steps 2
}

# install_torch_wheel cpu|cuda VERSION VENV
install_torch_wheel() {
  local build=$1 version=$2 venv=$3 size='200 MB'
  [[ $build == cuda ]] && size='about 4 GB with its CUDA libraries'
  quiet_step "Making the private Python environment ${venv#"$SLUICE_ROOT"/}" \
    make_venv "$venv" ||
    die "can't make $venv with /usr/bin/python3: see $SLUICE_LOG"
  talking_step "Installing LibTorch $version for ${build^^} ($size)" \
    "install_${build}_wheel" "$venv" "$version" ||
    die "pip can't get torch $version: $(reason_in_log);" \
      "give me one: LibTorch_ROOT=FOLDER-OR-FILE (see $SLUICE_LOG)"
}

unpack_torch() {
  mkdir -p "$2"
  (cd "$2" && cmake -E tar xf "$1") || return
  touch "$2/unpacked"
}

# A .zip or .whl: unpacked once below build/. A CUDA wheel's libraries are put
# beside it, where it looks for them.
torch_of_archive() {
  local archive size
  archive=$(realpath "$1")
  size=$(stat -c %s "$archive")
  torch_given="$SLUICE_ROOT/build/libtorch-$size-$(basename "${archive%.*}")"
  [[ -e $torch_given/unpacked ]] && return
  plan_steps 1
  quiet_step "Unpacking $archive" unpack_torch "$archive" "$torch_given" ||
    die "can't unpack $archive: is it a libtorch .zip or a torch .whl?"
  [[ -e $torch_given/torch/lib/libtorch_cuda.so ]] || return 0
  plan_steps 2
  quiet_step "Making the private Python environment .venv" \
    make_venv "$TORCH_VENV" || die "can't make .venv: see $SLUICE_LOG"
  talking_step "Installing the CUDA libraries of this wheel (about 3 GB)" \
    install_cuda_libraries "$TORCH_VENV" "$torch_given" \
    --target "$torch_given" ||
    { rm "$torch_given/unpacked"; die "pip: $(reason_in_log)"; }
}

use_given_torch() {
  local torch_given=$1 folder
  [[ -e $1 ]] || die "LibTorch_ROOT: $1 does not exist"
  [[ -d $1 ]] || torch_of_archive "$1"
  folder=$(torch_folder "$torch_given") ||
    die "LibTorch_ROOT: $1 holds no include/ATen/ATen.h, so it is no LibTorch"
  torch_is_supported "$folder" ||
    die "LibTorch_ROOT: $1 is LibTorch $(torch_version "$folder");" \
      "2.11 to 2.13 are supported"
  [[ -s $TORCH_CHOICE && $(<"$TORCH_CHOICE") == "$folder" ]] ||
    remember_torch "$folder"
}

use_python_torch() {
  local folder
  folder=$(torch_of_python_on_path) || return 1
  if torch_is_supported "$folder"; then
    remember_torch "$folder"
    return
  fi
  say "The Python on PATH has torch $(torch_version "$folder"), but 2.11 to" \
    "2.13 are supported: leaving it alone."
  return 1
}

pinned_torch() { printf '%s\n' "$(site_packages "$TORCH_VENV")/torch"; }

use_pinned_torch() {
  [[ $(torch_version "$(pinned_torch)") == "$TORCH_PINNED" ]] || return 1
  remember_torch "$(pinned_torch)"
}

# Settles on the LibTorch to use; if it is the pinned wheel and that is not
# there yet, sets TORCH_TO_INSTALL to the build wanted.
plan_torch() {
  TORCH_TO_INSTALL=''
  if ! { remembered_torch || use_python_torch || use_pinned_torch; }; then
    TORCH_TO_INSTALL=cpu
    if has_nvidia_driver; then TORCH_TO_INSTALL=cuda; fi
    plan_torch_wheel "$TORCH_TO_INSTALL" "$TORCH_PINNED" "$TORCH_VENV"
  fi
}

install_planned_torch() {
  [[ -n $TORCH_TO_INSTALL ]] || return 0
  install_torch_wheel "$TORCH_TO_INSTALL" "$TORCH_PINNED" "$TORCH_VENV"
  remember_torch "$(pinned_torch)"
}
