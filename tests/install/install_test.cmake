# Installs the build folder `build` into `scratch`, builds the project `outside`
# against that copy, with the README's program `example`, and runs both and the
# installed program; then has it write a plug-in, builds that, runs its test and
# trains with it.

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(run_expecting pattern)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT OUTPUT_VARIABLE output
    COMMAND_ERROR_IS_FATAL ANY)
  message("${output}")
  if(NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "expected ${pattern}")
  endif()
endfunction()

file(REMOVE_RECURSE "${scratch}")
run(${CMAKE_COMMAND} --install "${build}" --prefix "${scratch}/installed")
run(${CMAKE_COMMAND} -G Ninja -S "${outside}" -B "${scratch}/outside"
  "-DCMAKE_PREFIX_PATH=${scratch}/installed" "-DEXAMPLE=${example}"
  "-DCMAKE_CXX_COMPILER=${compiler}")
run(${CMAKE_COMMAND} --build "${scratch}/outside")
run_expecting("sluice" "${scratch}/installed/bin/sluice" --help)
if(NOT EXISTS "${scratch}/installed/share/doc/Sluice/LICENSE")
  message(FATAL_ERROR "the license was not installed")
endif()
run_expecting("random 0\\.[0-9]+\n.*backprop.*local_loss"
  "${scratch}/outside/outside")
run_expecting("turn-000100: accuracy 1\\.00"
  ${CMAKE_COMMAND} -E chdir "${scratch}" "${scratch}/outside/own_network"
  engine=processes threads=1)
run(${CMAKE_COMMAND} -E chdir "${scratch}"
  "${scratch}/installed/bin/sluice" new plugin made)
run(${CMAKE_COMMAND} -G Ninja -S "${scratch}/made" -B "${scratch}/made/build"
  "-DCMAKE_PREFIX_PATH=${scratch}/installed"
  "-DCMAKE_CXX_COMPILER=${compiler}")
run(${CMAKE_COMMAND} --build "${scratch}/made/build")
run("${scratch}/made/build/made_test")
run_expecting("accuracy" "${scratch}/installed/bin/sluice" run
  "${scratch}/made/made.toml" threads=1 turns=20 --dir "${scratch}/run")
file(REMOVE_RECURSE "${scratch}")
