# Precompiled headers. They take a third off a first build, but a compiler cache cannot share what is made with them between
# folders: they are for builds without a cache. Each file still includes what it uses; the preset "bare" checks that.
if(DLLM_CCACHE)
  option(DLLM_PCH "precompile the large headers (a first build; the compiler cache is bypassed)" OFF)
else()
  option(DLLM_PCH "precompile the large headers" ON)
endif()

# dllm_precompile(TARGET KIND): headers of KIND for a target. Targets of one kind must have the same compiler options
# (-pthread counts); the first one makes the file, the others use it.
#   source   libraries of src/      program   the program dllm      test   programs with GoogleTest      parity   that program
function(dllm_precompile target kind)
  # Clang refuses a file made with other sanitizers instead of passing it over.
  if(NOT DLLM_PCH OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  get_directory_property(options COMPILE_OPTIONS)
  if(kind STREQUAL "source" AND "-O0" IN_LIST options)
    set(kind source_plain) # folders without optimization in builds with sanitizers
  endif()
  get_property(owner GLOBAL PROPERTY DLLM_PCH_OWNER_${kind})
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
    return()
  endif()
  if(kind MATCHES "^source") # dllm_base has -pthread, the others do not
    set(empty "${PROJECT_BINARY_DIR}/precompiled.cpp")
    file(CONFIGURE OUTPUT "${empty}" CONTENT "// The large headers are precompiled for this target; others use them.\n")
    add_library(dllm_${kind}_headers OBJECT "${empty}")
    target_link_libraries(dllm_${kind}_headers PRIVATE dllm_flags)
    target_precompile_headers(${target} REUSE_FROM dllm_${kind}_headers)
    set(target dllm_${kind}_headers)
  endif()
  set_property(GLOBAL PROPERTY DLLM_PCH_OWNER_${kind} ${target})
  set(headers <algorithm> <array> <atomic> <cmath> <condition_variable> <cstdint> <cstring> <filesystem> <functional>
    <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream> <string> <string_view> <thread> <unordered_map>
    <utility> <vector> <nlohmann/json.hpp>)
  if(kind STREQUAL "test")
    list(APPEND headers <gtest/gtest.h>)
  endif()
  set(wrapped)
  foreach(header IN LISTS headers)
    list(APPEND wrapped "$<$<COMPILE_LANGUAGE:CXX>:${header}>")
  endforeach()
  target_precompile_headers(${target} PRIVATE ${wrapped})
endfunction()
