# MPI for lib/replicas/groups/mpi*.cpp: that of the pip package mpich in the
# project's .venv, or else that of the mpirun on PATH, or Debian's
# libopenmpi-dev. (CMake's own FindMPI ends with an error where there is an
# mpicxx without its headers, as Debian's openmpi-bin alone has it.)
#
#   SLUICE_MPI_ROOT   where to look first: a folder with bin/mpirun,
#                     include/mpi.h and lib/libmpi.so. Default: .venv

set(SLUICE_MPI_ROOT "${PROJECT_SOURCE_DIR}/.venv" CACHE PATH
  "An MPI: a folder with bin, include and lib")
find_program(SLUICE_SYSTEM_MPIRUN NAMES mpirun.openmpi mpirun)

# Sets, in the scope of the caller, mpi_include, mpi_library and SLUICE_MPIRUN,
# all of one MPI; the last is empty where there is none.
function(_sluice_find_mpi)
  set(SLUICE_MPIRUN "" PARENT_SCOPE)
  get_filename_component(beside "${SLUICE_SYSTEM_MPIRUN}/../.." ABSOLUTE)
  foreach(root "${SLUICE_MPI_ROOT}" "${beside}"
      "/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi")
    set(mpirun "${root}/bin/mpirun")
    if(NOT EXISTS "${mpirun}")
      set(mpirun "${SLUICE_SYSTEM_MPIRUN}")
    endif()
    # Wheels have no links: there libmpi.so is a text for GNU ld.
    file(GLOB libraries "${root}/lib/libmpi.so.[0-9]*" "${root}/lib/libmpi.so")
    if(mpirun AND libraries AND EXISTS "${root}/include/mpi.h")
      list(SORT libraries ORDER DESCENDING)
      list(GET libraries 0 library)
      set(mpi_include "${root}/include" PARENT_SCOPE)
      set(mpi_library "${library}" PARENT_SCOPE)
      set(SLUICE_MPIRUN "${mpirun}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# sluice_use_mpi(TARGET FILE...)
# Compiles these files of the target with MPI, where there is one that
# SLUICE_WITH_MPI allows. Sets SLUICE_MPIRUN; empty: without MPI.
function(sluice_use_mpi target)
  set(SLUICE_MPIRUN "")
  if(SLUICE_WITH_MPI)
    _sluice_find_mpi()
    if(NOT SLUICE_MPIRUN AND NOT SLUICE_WITH_MPI STREQUAL "AUTO")
      message(FATAL_ERROR "SLUICE_WITH_MPI is ${SLUICE_WITH_MPI}, and there is "
        "no MPI: install libopenmpi-dev, or `pip install mpich` into .venv")
    endif()
  endif()
  if(SLUICE_MPIRUN)
    message(STATUS "MPI: ${mpi_library}")
    set_source_files_properties(${ARGN} PROPERTIES
      COMPILE_DEFINITIONS SLUICE_MPI INCLUDE_DIRECTORIES "${mpi_include}"
      SKIP_UNITY_BUILD_INCLUSION ON)
    # Programs, installed ones too, find it where it lies now; only those that
    # call MPI load it. One argument, or CMake could put others between.
    get_filename_component(folder "${mpi_library}" DIRECTORY)
    target_link_libraries(${target} PRIVATE
      "-Wl,-rpath,${folder},--push-state,--as-needed,${mpi_library},--pop-state")
  endif()
  set(SLUICE_MPIRUN "${SLUICE_MPIRUN}" PARENT_SCOPE)
endfunction()
