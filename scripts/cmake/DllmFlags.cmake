# Compiler and linker settings shared by every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# -O3 gains nothing measurable over -O2 here and doubles compile time.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
set(CMAKE_C_FLAGS_DEBUG "-O1 -g1")

find_program(DLLM_CCACHE ccache)
if(DLLM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${DLLM_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${DLLM_CCACHE}")
endif()

add_library(dllm_flags INTERFACE)
# Contracting a*b+c on its own would give other bits per compiler: fused multiply-adds are written out.
target_compile_options(dllm_flags INTERFACE -ffp-contract=off)
# The same for consumers and developers, so that presets share a compiler cache.
target_compile_options(dllm_flags INTERFACE -Wall -Wextra -Wpedantic -Werror=return-type
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>)
if(DLLM_NATIVE)
  target_compile_options(dllm_flags INTERFACE -march=native)
endif()
# In a build for fuzzing, only folders that read untrusted bytes have checks of undefined behaviour and the fuzzer's counters;
# the rest has DLLM_READS_NOTHING (tests/fuzz/CMakeLists.txt). It halves what clang has to do there.
set(reads_nothing $<BOOL:$<TARGET_PROPERTY:DLLM_READS_NOTHING>>)
foreach(sanitizer IN LISTS DLLM_SANITIZE)
  set(option -fsanitize=${sanitizer})
  if(sanitizer STREQUAL "undefined")
    set(option $<$<NOT:${reads_nothing}>:-fsanitize=undefined;-fno-sanitize-recover=undefined>)
  endif()
  target_compile_options(dllm_flags INTERFACE "${option}" -fno-omit-frame-pointer)
  target_link_options(dllm_flags INTERFACE -fsanitize=${sanitizer})
endforeach()

# Several sources in one translation unit: headers (JSON, fmt, GoogleTest) take most of a build's time. Files keep their
# own includes and distinct names, so that they compile alone too; the preset "bare" builds them so.
# Builds with sanitizers are seldom repeated after a change of one file: larger units, a sixth less time.
if(DLLM_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)
  if(DLLM_SANITIZE)
    set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)
  endif()
endif()
