# Writes LIST: an add_test() for each suite of the GoogleTest program PROGRAM,
# named PREFIX and the suite's name, with LABEL for a label.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests
  OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
# "Suite." or "Instance/Suite.  # TypeParam = ..."; tests are indented. Not split
# into a list of lines: brackets in what parameters print would join some.
string(REGEX MATCHALL "\n[A-Za-z0-9_/]+\\." lines "\n${output}")
set(script "")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "[\n.]" "" suite "${line}")
  string(APPEND script
    "add_test(\"${PREFIX}${suite}\" \"${PROGRAM}\" \"--gtest_filter=${suite}.*\")\n"
    "set_tests_properties(\"${PREFIX}${suite}\" PROPERTIES TIMEOUT ${TIMEOUT}"
    " ENVIRONMENT \"OMP_NUM_THREADS=1\" LABELS \"${LABEL}\")\n")
endforeach()
file(WRITE "${LIST}" "${script}")
