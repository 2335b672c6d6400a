# Cross-builds for 64-bit ARM with Debian's gcc-aarch64-linux-gnu; programs, and so ctest, run under qemu-user.
#
#   cmake -B build-aarch64 --toolchain cmake/aarch64-linux-gnu.cmake -DCOMET_BUILD_CLI=OFF -DCOMET_BUILD_TESTS=OFF
#
# The program and the unit tests need cJSON and cmocka for arm64, which the cross compiler does not bring; tools/test_aarch64
# works without them.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

# Take libraries and headers from the target only, programs from the host.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
