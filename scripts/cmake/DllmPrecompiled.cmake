# Large headers (JSON, GoogleTest) take most of a build's time and are precompiled. Each file still includes what it uses, so
# that it compiles alone too; the preset "bare" builds them so.
#
# Precompiled headers, and larger units with them (DllmUnits), take a third off a first build and add to each later one. Where a compiler
# cache is, who changes sources builds without them; a first build asks for them.
if(DLLM_CCACHE)
  option(DLLM_PCH "precompile the large headers (for a first build)" OFF)
else()
  option(DLLM_PCH "precompile the large headers" ON)
endif()

# dllm_precompile(TARGET KIND): headers of KIND for a target. Targets of one kind must have the same compiler options
# (-pthread counts); the first one makes the file, the others use it.
#   source   libraries of src/      program   the program dllm      test   programs with GoogleTest      parity   that program
function(dllm_precompile target kind)
  if(NOT DLLM_PCH)
    return()
  endif()
  get_directory_property(options COMPILE_OPTIONS)
  if(kind STREQUAL "source" AND options) # a folder with options of its own: a kind for each set of them
    string(MD5 hash "${options}")
    string(SUBSTRING "${hash}" 0 6 hash)
    set(kind source_${hash})
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
