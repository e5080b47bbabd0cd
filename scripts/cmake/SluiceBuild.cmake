# Compiler settings, and sluice_library(): one static library per folder.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# The time goes into LibTorch's kernels; -O3 here only costs compile time.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# Programs share the libraries' precompiled header, so they must be compiled
# like them.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)

find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
    # Other clones of the repository share what was compiled.
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${SLUICE_CCACHE})
endif()

find_program(SLUICE_MOLD mold)

# Decides SLUICE_CUDA: whether .cu files are compiled. Nothing is looked for
# where there are none.
function(sluice_find_cuda)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/lib/*.cu" "${PROJECT_SOURCE_DIR}/transport/*.cu"
    "${PROJECT_SOURCE_DIR}/modules/*.cu"
    "${PROJECT_SOURCE_DIR}/auxiliary_heads/*.cu"
    "${PROJECT_SOURCE_DIR}/experiments/*.cu")
  set(found OFF)
  if(SLUICE_WITH_CUDA STREQUAL "AUTO" AND kernels)
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      set(found ON)
    endif()
  elseif(SLUICE_WITH_CUDA AND kernels)
    set(found ON)
  endif()
  set(SLUICE_CUDA ${found} PARENT_SCOPE)
endfunction()

sluice_find_cuda()
if(SLUICE_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES all-major)
  endif()
  enable_language(CUDA)
  # CMake 3.25 doesn't know that nvcc 12 and later have it.
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  find_package(CUDAToolkit REQUIRED)
endif()

# For every target of ours.
function(sluice_compile_settings target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
  if(SLUICE_WERROR)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-Werror>
      $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # -fpch-preprocess lets ccache see through a precompiled header. Collecting
    # garbage only above 1 GB takes an eighth off the time. The warnings are false
    # alarms of g++ 12: over concatenated std::strings, and over the frames of
    # coroutines that it has inlined.
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess;--param=ggc-min-heapsize=1000000;-Wno-restrict;-Wno-stringop-overflow;-Wno-mismatched-new-delete>")
  endif()
  if(SLUICE_SANITIZE)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${SLUICE_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>)
    target_link_options(${target} PUBLIC -fsanitize=${SLUICE_SANITIZE})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      # Clang 14 can't compile coroutines with it.
      target_compile_options(${target} PRIVATE
        $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=function>)
    else()
      # With sanitizers, g++ 12 sees uninitialized values in every std::optional
      # of a tensor. And Asio has fences, which g++ warns that it can't watch;
      # they are not what orders its threads: its mutexes are.
      target_compile_options(${target} PRIVATE
        $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>
        $<$<COMPILE_LANGUAGE:CXX>:-Wno-tsan>)
    endif()
  endif()
  if(SLUICE_MOLD)
    target_link_options(${target} PRIVATE -fuse-ld=mold)
  endif()
endfunction()

# sluice_precompile(TARGET [AS target])
# LibTorch's headers are slow: all targets that need them share one
# precompiled header, that of sluice_lib (tests: that of lib_tests, AS which
# they are compiled).
function(sluice_precompile target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "AS" "")
  if(NOT arg_AS)
    set(arg_AS sluice_lib)
  endif()
  if(target STREQUAL arg_AS)
    target_precompile_headers(${target} PRIVATE
      <ATen/ATen.h> <torch/autograd.h> <torch/nn/module.h> <fmt/format.h>)
  else()
    target_precompile_headers(${target} REUSE_FROM ${arg_AS})
  endif()
endfunction()

# Several files to a compiler. It reads Asio's headers once then; and of LibTorch's
# it makes, precompiled or not, 6 s of templates for every file that it is given.
# To it they look like headers, where coroutines must not have types of their
# own.
function(sluice_unity target)
  if(NOT SLUICE_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 20)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()

# sluice_library(NAME FOLDER [TORCH] LINKS targets...)
# Makes sluice_NAME from the .cpp files of FOLDER and the folders below it
# (main.cpp and, for lib, lib/base, lib/kernels and lib/schedules excepted; of
# experiments what downloads, which is SLUICE_FETCH_SOURCES). Where there is an
# nvcc, .cu files are compiled too, and SLUICE_CUDA is defined for their folder:
# one that doesn't know LibTorch, or it couldn't share the precompiled header.
# The list is re-checked at every build, so that a new file needs no line here.
function(sluice_library name folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "TORCH" "" "LINKS")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS
    "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp")
  if(SLUICE_CUDA)
    file(GLOB_RECURSE kernels CONFIGURE_DEPENDS
      "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cu")
    if(folder STREQUAL "lib")
      set(kernels)  # those of lib/kernels
    endif()
    list(APPEND sources ${kernels})
  endif()
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(folder STREQUAL "experiments")
    set(fetching
      "/experiments/(data/fetch/[a-z_]+|program/fetch_command)\\.cpp$")
    set(apart ${sources})
    list(FILTER apart INCLUDE REGEX "${fetching}")
    list(FILTER sources EXCLUDE REGEX "${fetching}")
    set(SLUICE_FETCH_SOURCES ${apart} PARENT_SCOPE)
  endif()
  if(folder STREQUAL "lib")
    list(FILTER sources EXCLUDE REGEX "/lib/(base|kernels|schedules)/")
  endif()
  set(target sluice_${name})
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/sluice>")
  target_link_libraries(${target} PUBLIC ${arg_LINKS})
  target_compile_features(${target} PUBLIC cxx_std_20)
  if(kernels)
    target_compile_definitions(${target} PRIVATE SLUICE_CUDA)
    # Programs start where there is no CUDA. CMake would link it by itself, but
    # not into those that find an installed copy of ours.
    target_link_libraries(${target} PRIVATE CUDA::cudart_static)
  endif()
  sluice_compile_settings(${target})
  if(arg_TORCH)
    target_link_libraries(${target} PUBLIC LibTorch::LibTorch)
    sluice_precompile(${target})
  endif()
  sluice_unity(${target})
  set_property(GLOBAL APPEND PROPERTY SLUICE_LIBRARIES ${target})
endfunction()
