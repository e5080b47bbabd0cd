# Makes the imported target LibTorch::LibTorch from the headers and libraries
# of a LibTorch 2.x, with its CUDA libraries when they are there. Works with
# the CPU wheel, the CUDA wheel and the zip, and never needs a CUDA toolkit
# (LibTorch's own package insists on one).
#
#   LibTorch_ROOT   where to look: an unpacked libtorch, a wheel's `torch`
#                   folder, or such a .zip or .whl file, which is unpacked into
#                   the build folder. A CMake or environment variable.
#                   Default: the torch of the Python on PATH.

include(FindPackageHandleStandardArgs)

set(LibTorch_ROOT "" CACHE PATH "LibTorch: a folder, a .zip or a .whl")

function(_libtorch_from_python result)
  find_program(LibTorch_PYTHON NAMES python3 python)
  if(LibTorch_PYTHON)
    execute_process(
      COMMAND "${LibTorch_PYTHON}" -c
        "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

function(_libtorch_unpacked archive result)
  file(SHA256 "${archive}" digest)
  string(SUBSTRING "${digest}" 0 16 digest)
  set(folder "${CMAKE_BINARY_DIR}/libtorch-${digest}")
  if(NOT EXISTS "${folder}/unpacked")
    message(STATUS "Unpacking ${archive}")
    file(ARCHIVE_EXTRACT INPUT "${archive}" DESTINATION "${folder}")
    file(TOUCH "${folder}/unpacked")
  endif()
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

set(_libtorch_root "${LibTorch_ROOT}")
if(NOT _libtorch_root)
  set(_libtorch_root "$ENV{LibTorch_ROOT}")
endif()
if(NOT _libtorch_root)
  _libtorch_from_python(_libtorch_root)
elseif(EXISTS "${_libtorch_root}" AND NOT IS_DIRECTORY "${_libtorch_root}")
  _libtorch_unpacked("${_libtorch_root}" _libtorch_root)
endif()

find_path(LibTorch_INCLUDE_DIR ATen/ATen.h NO_DEFAULT_PATH NO_CACHE
  PATHS "${_libtorch_root}/include" "${_libtorch_root}/libtorch/include"
        "${_libtorch_root}/torch/include")
if(LibTorch_INCLUDE_DIR)
  get_filename_component(LibTorch_DIR "${LibTorch_INCLUDE_DIR}" DIRECTORY)
  # Releases before 2.9 have it elsewhere; they are to be refused by number.
  find_file(_libtorch_version_file version.h NO_DEFAULT_PATH NO_CACHE
    PATHS "${LibTorch_INCLUDE_DIR}/torch/headeronly"
          "${LibTorch_INCLUDE_DIR}/torch/csrc/api/include/torch")
  file(STRINGS "${_libtorch_version_file}" _libtorch_numbers
    REGEX "TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" _libtorch_numbers "${_libtorch_numbers}")
  list(JOIN _libtorch_numbers "." LibTorch_VERSION)
endif()

set(LibTorch_LIBRARIES "")
foreach(name torch torch_cpu c10)
  find_library(_libtorch_${name} ${name} NO_DEFAULT_PATH NO_CACHE
    PATHS "${LibTorch_DIR}/lib")
  list(APPEND LibTorch_LIBRARIES "${_libtorch_${name}}")
endforeach()
set(LibTorch_CUDA_LIBRARIES "")
foreach(name torch_cuda c10_cuda)
  find_library(_libtorch_${name} ${name} NO_DEFAULT_PATH NO_CACHE
    PATHS "${LibTorch_DIR}/lib")
  if(_libtorch_${name})
    list(APPEND LibTorch_CUDA_LIBRARIES "${_libtorch_${name}}")
  endif()
endforeach()

find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_INCLUDE_DIR _libtorch_torch_cpu _libtorch_c10
  VERSION_VAR LibTorch_VERSION HANDLE_VERSION_RANGE
  REASON_FAILURE_MESSAGE
    "looked in '${_libtorch_root}': give LibTorch_ROOT, a libtorch folder, .zip or .whl, or put a Python with torch on PATH")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  # Searched last: LibTorch carries the headers of an fmt of its own, whose code
  # is not in its libraries.
  target_compile_options(LibTorch::LibTorch INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter \"${LibTorch_INCLUDE_DIR}\">"
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter \"${LibTorch_INCLUDE_DIR}/torch/csrc/api/include\">")
  # The libraries find their CUDA neighbours at run time by their own rpath.
  target_link_options(LibTorch::LibTorch INTERFACE
    "LINKER:-rpath,${LibTorch_DIR}/lib" "LINKER:--allow-shlib-undefined")
  # libstdc++ first: LibTorch's libraries export parts of an older one, and a
  # program that found std::filesystem::remove_all there crashed (2.11, CUDA).
  target_link_libraries(LibTorch::LibTorch INTERFACE
    stdc++ ${LibTorch_LIBRARIES})
  if(LibTorch_CUDA_LIBRARIES)
    # Nothing refers to them by name; loading them registers the CUDA kernels.
    target_link_libraries(LibTorch::LibTorch INTERFACE
      -Wl,--no-as-needed ${LibTorch_CUDA_LIBRARIES} -Wl,--as-needed)
  endif()
endif()
