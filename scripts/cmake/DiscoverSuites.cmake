# sluice_discover_suites(TARGET [TIMEOUT SECONDS] [PREFIX TEXT] [LABEL TEXT])
# Registers a ctest per test suite of a GoogleTest program, found by asking it
# after each build. A ctest per test, as gtest_discover_tests() makes them, would
# load LibTorch for each: most of the time of all the tests together. PREFIX goes
# before the name of each, where two programs have the same suites. A program for
# another machine can't list its tests, and has no ctests.
function(sluice_discover_suites target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;PREFIX;LABEL" "")
  if(CMAKE_CROSSCOMPILING)
    return()
  endif()
  set(list "${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake")
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${target}>
      -DLIST=${list} -DTIMEOUT=${arg_TIMEOUT}
      -DPREFIX=${arg_PREFIX} -DLABEL=${arg_LABEL}
      -P ${PROJECT_SOURCE_DIR}/scripts/cmake/ListSuites.cmake
    BYPRODUCTS ${list} VERBATIM)
  # Before the first build there is no list.
  set(include "${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake")
  file(WRITE "${include}"
    "if(EXISTS \"${list}\")\n  include(\"${list}\")\nelse()\n"
    "  add_test(${target}_NOT_BUILT ${target}_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${include}")
endfunction()
