# A toolchain file: Debian's cross compiler for 64-bit ARM, and the packages that
# scripts/shared/aarch64.sh has unpacked in SLUICE_AARCH64_ROOT.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# Compilers that CMake tries get it too.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SLUICE_AARCH64_ROOT)
set(CMAKE_FIND_ROOT_PATH "${SLUICE_AARCH64_ROOT}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# Headers of this machine alone, such as one of OpenSSL's; and isa-l, which is
# linked by its name.
set(CMAKE_CXX_FLAGS_INIT
  "-isystem ${SLUICE_AARCH64_ROOT}/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}")
set(CMAKE_EXE_LINKER_FLAGS_INIT
  "-L${SLUICE_AARCH64_ROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}")
