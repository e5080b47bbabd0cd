# `cmake --install` and find_package(Sluice): the program, the libraries with
# the headers that users include, and the imported targets sluice::sluice, which
# is all of them, and sluice::plugin, the headers alone, for plug-ins. A project
# that has this one as a part of it finds the same targets.

get_property(_libraries GLOBAL PROPERTY SLUICE_LIBRARIES)
add_library(sluice_everything INTERFACE)
add_library(sluice::sluice ALIAS sluice_everything)
target_link_libraries(sluice_everything INTERFACE ${_libraries})
set_target_properties(sluice_everything PROPERTIES EXPORT_NAME sluice)
if(SLUICE_WITH_TORCH)
  add_library(sluice::plugin ALIAS sluice_plugin)
  set_target_properties(sluice_plugin PROPERTIES EXPORT_NAME plugin)
  list(APPEND _libraries sluice_plugin)
endif()
if(NOT SLUICE_INSTALL)
  return()
endif()

include(CMakePackageConfigHelpers)
set(_package "${CMAKE_INSTALL_LIBDIR}/cmake/Sluice")

# Sets RESULT to the headers that these ones include, directly or not,
# themselves too; paths are relative to the tree.
function(sluice_headers_of result)
  set(waiting ${ARGN})
  set(found)
  while(waiting)
    list(POP_FRONT waiting header)
    if(header IN_LIST found OR NOT EXISTS "${PROJECT_SOURCE_DIR}/${header}")
      continue()
    endif()
    list(APPEND found "${header}")
    file(STRINGS "${PROJECT_SOURCE_DIR}/${header}" lines
      REGEX "^#include \"[^\"]+\"")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" included "${line}")
      list(APPEND waiting "${included}")
    endforeach()
  endwhile()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

install(TARGETS sluice_everything ${_libraries} EXPORT SluiceTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT SluiceTargets NAMESPACE sluice:: DESTINATION "${_package}")

set(_include "${CMAKE_INSTALL_INCLUDEDIR}/sluice")
if(SLUICE_WITH_TORCH)
  # What users include, layers among it; what these don't need stays behind.
  file(GLOB _layers RELATIVE "${PROJECT_SOURCE_DIR}"
    "${PROJECT_SOURCE_DIR}/modules/*.h")
  sluice_headers_of(_headers experiments/api/sluice.h
    experiments/plugins/plugin.h lib/tensors/pooling.h ${_layers})
  foreach(_header IN LISTS _headers)
    get_filename_component(_folder "${_header}" DIRECTORY)
    install(FILES "${PROJECT_SOURCE_DIR}/${_header}"
      DESTINATION "${_include}/${_folder}")
  endforeach()
  install(FILES "${PROJECT_SOURCE_DIR}/include/sluice/sluice.h"
    "${PROJECT_BINARY_DIR}/generated/sluice_headers.h"
    DESTINATION "${_include}")
  if(SLUICE_BUILD_PROGRAM)
    # The program finds LibTorch where it was at build time.
    set_target_properties(sluice PROPERTIES INSTALL_RPATH "${LibTorch_DIR}/lib")
    install(TARGETS sluice RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  endif()
  install(FILES "${CMAKE_CURRENT_LIST_DIR}/FindLibTorch.cmake"
    DESTINATION "${_package}")
else()
  foreach(_folder lib/base lib/kernels lib/schedules transport)
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/${_folder}/"
      DESTINATION "${_include}/${_folder}"
      FILES_MATCHING PATTERN "*.h")
  endforeach()
endif()

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}")

configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/SluiceConfig.cmake.in" SluiceConfig.cmake
  INSTALL_DESTINATION "${_package}")
write_basic_package_version_file(SluiceConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/SluiceConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/SluiceConfigVersion.cmake"
  DESTINATION "${_package}")
