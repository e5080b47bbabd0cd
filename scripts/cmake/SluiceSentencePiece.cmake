# Sub-words for experiments/data/files/sub_words.cpp: Debian's
# libsentencepiece-dev, which has no package for CMake.

find_path(SENTENCEPIECE_INCLUDE sentencepiece_trainer.h)
find_library(SENTENCEPIECE_LIBRARY sentencepiece)
find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train)

# sluice_use_sentencepiece(TARGET FILE)
# Compiles the file of the target with sentencepiece, where there is one that
# SLUICE_WITH_SENTENCEPIECE allows: SLUICE_SENTENCEPIECE is defined there.
function(sluice_use_sentencepiece target file)
  if(NOT SLUICE_WITH_SENTENCEPIECE)
    return()
  endif()
  if(NOT SENTENCEPIECE_INCLUDE OR NOT SENTENCEPIECE_LIBRARY
      OR NOT SENTENCEPIECE_TRAIN_LIBRARY)
    if(NOT SLUICE_WITH_SENTENCEPIECE STREQUAL "AUTO")
      message(FATAL_ERROR "SLUICE_WITH_SENTENCEPIECE is "
        "${SLUICE_WITH_SENTENCEPIECE}, and there is no sentencepiece: install "
        "libsentencepiece-dev")
    endif()
    message(STATUS "sentencepiece: none, so no sub-words")
    return()
  endif()
  message(STATUS "sentencepiece: ${SENTENCEPIECE_LIBRARY}")
  set_property(SOURCE "${file}" APPEND PROPERTY
    COMPILE_DEFINITIONS SLUICE_SENTENCEPIECE)
  if(NOT SENTENCEPIECE_INCLUDE IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    set_property(SOURCE "${file}" APPEND PROPERTY
      INCLUDE_DIRECTORIES "${SENTENCEPIECE_INCLUDE}")
  endif()
  target_link_libraries(${target} PRIVATE
    "${SENTENCEPIECE_TRAIN_LIBRARY}" "${SENTENCEPIECE_LIBRARY}")
endfunction()
