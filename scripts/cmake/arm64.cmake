# Toolchain file of the preset "arm64": Debian's g++-aarch64-linux-gnu, the libraries that scripts/fetch-arm64 unpacked, and
# qemu for what is run.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

get_filename_component(dllm_arm64 "${CMAKE_CURRENT_LIST_DIR}/../../build/_deps/arm64" ABSOLUTE)
set(dllm_arm64_libraries "${dllm_arm64}/usr/lib/aarch64-linux-gnu")
if(NOT EXISTS "${dllm_arm64_libraries}")
  message(FATAL_ERROR "${dllm_arm64} has no libraries; run scripts/fetch-arm64")
endif()
set(CMAKE_FIND_ROOT_PATH "${dllm_arm64}" /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${dllm_arm64}")
set(ENV{PKG_CONFIG_LIBDIR} "${dllm_arm64_libraries}/pkgconfig:${dllm_arm64}/usr/share/pkgconfig")

# Shared libraries of these need others of the same folder.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${dllm_arm64_libraries}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,-rpath-link,${dllm_arm64_libraries}")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu)
