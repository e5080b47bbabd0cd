# Installs the build folder `build` into `scratch`, builds the project `outside`
# against that copy, with docs/programs.md's program `example`, and runs both and the
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
# What users include, and no more.
set(headers "${scratch}/installed/include/sluice")
if(NOT EXISTS "${headers}/sluice.h")
  message(FATAL_ERROR "<sluice/sluice.h> was not installed")
endif()
foreach(internal experiments/api/network_core.h experiments/runs/run.h
    lib/engines/crew.h transport/links/tcp.h)
  if(NOT EXISTS "${tree}/${internal}")
    message(FATAL_ERROR "${internal} is no header any more")
  endif()
  if(EXISTS "${headers}/${internal}")
    message(FATAL_ERROR "${internal} was installed")
  endif()
endforeach()
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
# Sluice as a part of another project: that it is compiled is not tried anew.
run(${CMAKE_COMMAND} -G Ninja -S "${within}" -B "${scratch}/within"
  "-DSLUICE=${tree}" "-DEXAMPLE=${example}" "-DLibTorch_ROOT=${libtorch}"
  "-DCMAKE_CXX_COMPILER=${compiler}")
file(REMOVE_RECURSE "${scratch}")
