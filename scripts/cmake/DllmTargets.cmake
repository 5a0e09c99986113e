# One library per folder of src/, one test program per folder of tests/unit/.

# dllm_table_folder(policies): the sources of a folder that holds one entry of a table per file, so a new entry needs no line
# in CMakeLists.txt. In ${policies}.
macro(dllm_table_folder folder)
  file(GLOB ${folder} RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp")
endmacro()

# dllm_folder(base SOURCES a.cpp b.cpp DEPENDS tensor LINK fmt::fmt [PRIVATE_LINK ZLIB::ZLIB])
function(dllm_folder name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LINK;PRIVATE_LINK" ${ARGN})
  add_library(dllm_${name} STATIC ${ARG_SOURCES})
  target_include_directories(dllm_${name} PUBLIC "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(dllm_${name} PUBLIC dllm_flags ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK})
  if(NOT name STREQUAL "base") # alone in having OpenMP's option
    dllm_precompile(dllm_${name} source)
  endif()
  foreach(lower IN LISTS ARG_DEPENDS)
    target_link_libraries(dllm_${name} PUBLIC dllm_${lower})
  endforeach()
endfunction()

# dllm_unit_test(base SOURCES x_test.cpp DEPENDS tensor): program test_base with ctest label "unit".
# SANITIZED_FILTER: which of its tests sanitizers run, all by default; compilers are five times slower under them.
# SLOW_FILTER: which of its tests are left to one test more, <program>_slow with label "slow"; not under sanitizers.
# COST: a large number starts it early. ENVIRONMENT: one NAME=VALUE for its tests.
function(dllm_unit_test name)
  cmake_parse_arguments(ARG "" "LABEL;SANITIZED_FILTER;SLOW_FILTER;COST;ENVIRONMENT" "SOURCES;DEPENDS;LINK" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_COST)
    set(ARG_COST 0)
  endif()
  if(NOT ARG_SANITIZED_FILTER)
    set(ARG_SANITIZED_FILTER "*")
  endif()
  string(REPLACE "/" "_" target "test_${name}")
  add_executable(${target} ${ARG_SOURCES})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${target} PRIVATE dllm_flags ${ARG_LINK} GTest::gtest GTest::gtest_main)
  foreach(lower IN LISTS ARG_DEPENDS)
    target_link_libraries(${target} PRIVATE dllm_${lower})
  endforeach()
  dllm_precompile(${target} test)
  # Tests run in the root of the checkout (WORKING_DIRECTORY below). A relative path keeps their object files
  # equal between worktrees, so that they share a compiler cache.
  target_compile_definitions(${target} PRIVATE DLLM_SOURCE_DIR=".")
  if(DLLM_SANITIZE) # a process for every single test takes longer to start than to run there
    add_test(NAME ${target} COMMAND ${target} --gtest_brief=1 --gtest_filter=${ARG_SANITIZED_FILTER}
             WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(${target} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT 1500
      ENVIRONMENT "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/data/leaks_of_plugins.txt")
    return()
  endif()
  set(properties LABELS ${ARG_LABEL} COST ${ARG_COST})
  if(ARG_ENVIRONMENT)
    list(APPEND properties ENVIRONMENT ${ARG_ENVIRONMENT})
  endif()
  list(JOIN properties " " properties)
  set(include "${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake")
  file(GENERATE OUTPUT "${include}" CONTENT "set(program \"$<TARGET_FILE:${target}>\")
set(suites \"${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.txt\")
set(folder \"${PROJECT_SOURCE_DIR}\")
set(properties ${properties})
set(slow \"${ARG_SLOW_FILTER}\")
include(\"${PROJECT_SOURCE_DIR}/scripts/cmake/DiscoverSuites.cmake\")
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${include}")
endfunction()

# Adds each listed sub-folder that has its CMakeLists.txt.
function(dllm_subdirectories)
  foreach(folder IN LISTS ARGN)
    if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt")
      add_subdirectory(${folder})
    endif()
  endforeach()
endfunction()
