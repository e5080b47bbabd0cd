# Writes OUT, a header with VERSION and a hash of the headers in SOURCE that
# plug-ins may include: a plug-in that was compiled with others may lay out its
# types in another way. Only when it changed, so that nothing is compiled again
# for nothing.
set(digests "")
foreach(folder lib modules auxiliary_heads experiments/data experiments/plugins)
  file(GLOB_RECURSE headers RELATIVE "${SOURCE}" "${SOURCE}/${folder}/*.h")
  list(SORT headers)
  foreach(header IN LISTS headers)
    file(SHA256 "${SOURCE}/${header}" digest)
    string(APPEND digests "${header} ${digest}\n")
  endforeach()
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING "${digest}" 0 12 digest)
set(text "#define SLUICE_HEADERS \"${VERSION} (headers ${digest})\"\n")
set(old "")
if(EXISTS "${OUT}")
  file(READ "${OUT}" old)
endif()
if(NOT text STREQUAL old)
  file(WRITE "${OUT}" "${text}")
endif()
