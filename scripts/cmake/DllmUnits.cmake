# A translation unit holds several sources, which halves the time of a first build (docs/decisions/0018-units.md).
# Equal private names in the sources of a unit would clash. So a source joins a unit that has none of its names, and private names
# need not be unique in a library. After a new name clashes, configure again.

# dllm_names(names FILE): the names that a source declares in its namespaces, functions of classes left out. It does not read
# aliases, macros, enumerators, and names on a line after the first. Those clash at compile time.
function(dllm_names result file)
  file(READ "${file}" text)
  string(REGEX REPLACE "[;[]" "(" text "${text}") # lists of CMake divide at ; and join at brackets
  string(REGEX REPLACE "[]\\\\]" ")" text "${text}")
  string(REPLACE "::" "@" text "${text}")
  string(REPLACE " final " " " text "${text}")
  string(REGEX MATCHALL "\n[A-Za-z][^\n]*" lines "${text}") # declarations begin in the first column
  set(names)
  foreach(line IN LISTS lines)
    if(line MATCHES "^\n(namespace|using|template <[^(]*>$)")
      continue()
    endif()
    set(name)
    if(line MATCHES "^\n[^(={:]*[ *&]([A-Za-z_][A-Za-z_0-9]*) *[(={:]")
      set(name "${CMAKE_MATCH_1}")
    elseif(line MATCHES "^\n([A-Za-z_][A-Za-z_0-9]*)[(]") # its type is in the line above
      set(name "${CMAKE_MATCH_1}")
    endif()
    if(NOT name MATCHES "^[A-Z_]*$") # macros such as TEST
      list(APPEND names "${name}")
    endif()
    string(REGEX MATCHALL ", [*]?[A-Za-z_][A-Za-z_0-9]* =" others "${line}") # constants of one line
    string(REGEX REPLACE "[ ,*=]" "" others "${others}")
    list(APPEND names ${others})
  endforeach()
  list(REMOVE_DUPLICATES names)
  set(${result} ${names} PARENT_SCOPE)
endfunction()

# dllm_find_unit(result NAMES SIZE): the first of `units` with room and without these names, else a new one.
macro(dllm_find_unit result names size)
  set(${result})
  foreach(candidate IN LISTS units)
    list(LENGTH sources_${candidate} count)
    set(fits ON)
    foreach(name IN LISTS ${names})
      if(name IN_LIST names_${candidate})
        set(fits OFF)
        break()
      endif()
    endforeach()
    if(fits AND count LESS ${size})
      set(${result} ${candidate})
      break()
    endif()
  endforeach()
  if(NOT ${result})
    list(LENGTH units ${result})
    math(EXPR ${result} "${${result}} + 1")
    list(APPEND units ${${result}})
  endif()
endmacro()

# Divides the sources of a target among units of at most `size` sources.
function(dllm_make_units_of target folder size)
  get_target_property(type ${target} TYPE)
  if(type MATCHES "INTERFACE|UTILITY")
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(units)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${folder}" OUTPUT_VARIABLE file)
    if(NOT source MATCHES "\\.cpp$" OR NOT EXISTS "${file}") # a build makes some
      continue()
    endif()
    dllm_names(names "${file}")
    dllm_find_unit(unit names ${size})
    list(APPEND names_${unit} ${names})
    list(APPEND sources_${unit} "${source}")
    set_property(SOURCE "${file}" TARGET_DIRECTORY ${target} PROPERTY UNITY_GROUP "${target}_${unit}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# dllm_make_units(FOLDER SIZE): for the targets of a folder and of the folders below it.
function(dllm_make_units folder size)
  get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    dllm_make_units_of(${target} "${folder}" ${size})
  endforeach()
  get_property(folders DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
  foreach(below IN LISTS folders)
    dllm_make_units("${below}" ${size})
  endforeach()
endfunction()

# Sources that no unit may hold.
function(dllm_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
