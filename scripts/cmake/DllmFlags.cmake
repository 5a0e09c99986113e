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
  set(CMAKE_BUILD_TYPE Release) # of dllm's folders alone: a project that takes dllm in keeps its own
endif()
# -O3 gains nothing measurable over -O2 here and doubles compile time.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g1")

# Said by the CMakeLists.txt of a folder about all its sources, before its targets.
# dllm_runs_seldom(): release builds optimize it less, which saves a quarter of its compile time.
macro(dllm_runs_seldom)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    add_compile_options(-O1)
  endif()
endmacro()
# dllm_has_loops(): builds with sanitizers, which have no optimization, optimize it. GCC's -O2 leaves loops whose count is not known
# scalar; here it vectorizes them as clang does. Functions and loops begin at borders that the linker cannot move.
macro(dllm_has_loops)
  if(DLLM_SANITIZE)
    add_compile_options(-O1)
  else()
    add_compile_options(-falign-functions=64 -falign-loops=32)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      add_compile_options(-fvect-cost-model=dynamic)
    endif()
  endif()
endmacro()

# Paths below the checkout count as relative ones, so that checkouts and presets share what equal sources gave. The sloppiness is
# what ccache's manual asks for with precompiled headers; no source here uses __TIME__ or __DATE__. A debugger may so name the
# folder of another checkout.
find_program(DLLM_CCACHE ccache)
if(DLLM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}"
    CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime "${DLLM_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()

add_library(dllm_flags INTERFACE)
if(DLLM_CCACHE) # without these ccache passes sources with precompiled headers on
  target_compile_options(dllm_flags INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess> "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endif()
# Contracting a*b+c on its own would give other bits per compiler: fused multiply-adds are written out.
target_compile_options(dllm_flags INTERFACE -ffp-contract=off)
# The same for consumers and developers, so that presets share a compiler cache.
target_compile_options(dllm_flags INTERFACE -Wall -Wextra -Wpedantic -Werror=return-type
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>)
if(DLLM_SANITIZE) # a build of developers alone: a function without a caller is something forgotten
  target_compile_options(dllm_flags INTERFACE -Werror=unused-function)
endif()
if(DLLM_NATIVE)
  target_compile_options(dllm_flags INTERFACE -march=native)
endif()
# Sources see DLLM_SANITIZES_ADDRESS or DLLM_SANITIZES_THREAD. Folders with DLLM_UNCHECKED set have no checks of undefined
# behaviour: tests, which call functions through other types on purpose.
define_property(TARGET PROPERTY DLLM_UNCHECKED INITIALIZE_FROM_VARIABLE DLLM_UNCHECKED)
foreach(sanitizer IN LISTS DLLM_SANITIZE)
  string(TOUPPER "DLLM_SANITIZES_${sanitizer}" definition)
  set(options -fsanitize=${sanitizer})
  if(sanitizer STREQUAL "undefined")
    set(options "$<$<NOT:$<BOOL:$<TARGET_PROPERTY:DLLM_UNCHECKED>>>:-fsanitize=undefined;-fno-sanitize-recover=undefined>")
  endif()
  target_compile_definitions(dllm_flags INTERFACE ${definition})
  target_compile_options(dllm_flags INTERFACE "${options}" -fno-omit-frame-pointer)
  target_link_options(dllm_flags INTERFACE -fsanitize=${sanitizer})
endforeach()
