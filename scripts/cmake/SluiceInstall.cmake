# `cmake --install` and find_package(Sluice): the program, the libraries with
# their headers, and the imported targets sluice::sluice, which is all of them,
# and sluice::plugin, the headers alone, for plug-ins.

include(CMakePackageConfigHelpers)
set(_package "${CMAKE_INSTALL_LIBDIR}/cmake/Sluice")

get_property(_libraries GLOBAL PROPERTY SLUICE_LIBRARIES)
add_library(sluice_everything INTERFACE)
target_link_libraries(sluice_everything INTERFACE ${_libraries})
set_target_properties(sluice_everything PROPERTIES EXPORT_NAME sluice)
if(SLUICE_WITH_TORCH)
  set_target_properties(sluice_plugin PROPERTIES EXPORT_NAME plugin)
  list(APPEND _libraries sluice_plugin)
endif()

install(TARGETS sluice_everything ${_libraries} EXPORT SluiceTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT SluiceTargets NAMESPACE sluice:: DESTINATION "${_package}")

set(_folders lib/base lib/kernels lib/schedules transport)
if(SLUICE_WITH_TORCH)
  set(_folders lib modules auxiliary_heads transport experiments)
  # It finds LibTorch where it was at build time.
  set_target_properties(sluice PROPERTIES INSTALL_RPATH "${LibTorch_DIR}/lib")
  install(TARGETS sluice RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  install(FILES "${CMAKE_CURRENT_LIST_DIR}/FindLibTorch.cmake"
    DESTINATION "${_package}")
  install(FILES "${CMAKE_BINARY_DIR}/generated/sluice_headers.h"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/sluice")
endif()
foreach(_folder ${_folders})
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/${_folder}/"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/sluice/${_folder}"
    FILES_MATCHING PATTERN "*.h")
endforeach()

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
