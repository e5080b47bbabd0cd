# Writes LIST: an add_test() for each suite of the GoogleTest program PROGRAM,
# named PREFIX and the suite's name.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests
  OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" lines "${output}")
set(script "")
foreach(line IN LISTS lines)
  # "Suite." or "Instance/Suite.  # TypeParam = ..."; tests are indented.
  if(line MATCHES "^([A-Za-z0-9_/]+)\\.")
    set(suite "${CMAKE_MATCH_1}")
    string(APPEND script
      "add_test(\"${PREFIX}${suite}\" \"${PROGRAM}\" \"--gtest_filter=${suite}.*\")\n"
      "set_tests_properties(\"${PREFIX}${suite}\" PROPERTIES TIMEOUT ${TIMEOUT}"
      " ENVIRONMENT \"OMP_NUM_THREADS=1\")\n")
  endif()
endforeach()
file(WRITE "${LIST}" "${script}")
