# Lua 5.4 from source, compiled as C++ and hidden: target dllm_lua_vm.
# Debian's archives are not position independent, and a shared Lua would meet the host's own.
set(DLLM_LUA_SOURCE "" CACHE PATH "folder with the sources of Lua 5.4 (lapi.c, lua.h, ...)")

# One copy for all presets, so that only the first configure needs a network.
function(dllm_lua_sources out)
  set(cache "${PROJECT_SOURCE_DIR}/build/_deps/lua-src")
  if(DLLM_LUA_SOURCE)
    foreach(folder IN ITEMS "${DLLM_LUA_SOURCE}" "${DLLM_LUA_SOURCE}/src")
      if(EXISTS "${folder}/lapi.c" AND EXISTS "${folder}/lua.h")
        set(${out} "${folder}" PARENT_SCOPE)
        return()
      endif()
    endforeach()
    message(FATAL_ERROR "DLLM_LUA_SOURCE=${DLLM_LUA_SOURCE} holds no lapi.c and lua.h")
  endif()
  file(MAKE_DIRECTORY "${PROJECT_SOURCE_DIR}/build/_deps")
  file(LOCK "${PROJECT_SOURCE_DIR}/build/_deps/lua-src.lock" GUARD FUNCTION TIMEOUT 120)
  if(NOT EXISTS "${cache}/lapi.c")
    execute_process(COMMAND "${PROJECT_SOURCE_DIR}/scripts/cmake/fetch-lua" "${cache}.new"
                    RESULT_VARIABLE failed OUTPUT_VARIABLE way ERROR_VARIABLE log
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(failed)
      message(FATAL_ERROR "the sources of Lua 5.4 cannot be had; one of these is needed:\n"
        "  -DDLLM_LUA_SOURCE=<folder with lapi.c and lua.h>\n"
        "  Debian's source package lua5.4, through apt-get (network or local mirror)\n"
        "  the crate lua-src =547.0.0, through cargo (network or local registry)\n"
        "or build without scripts: -DDLLM_LUA=OFF\n${log}")
    endif()
    file(REMOVE_RECURSE "${cache}")
    file(RENAME "${cache}.new" "${cache}")
    message(STATUS "Lua 5.4 sources fetched with ${way}")
  endif()
  set(${out} "${cache}" PARENT_SCOPE)
endfunction()

dllm_lua_sources(dllm_lua_folder)
file(STRINGS "${dllm_lua_folder}/lua.h" dllm_lua_version
     REGEX "^#define[ \t]+LUA_VERSION_(MAJOR|MINOR)[ \t]+\"[0-9]+\"")
if(NOT "${dllm_lua_version}" MATCHES "MAJOR[ \t]+\"5\".*MINOR[ \t]+\"4\"")
  message(FATAL_ERROR "${dllm_lua_folder} is not Lua 5.4")
endif()

# A file of Lua with changes, each a text that occurs in it (once, before " -> ") and what replaces it.
function(dllm_lua_changed folder name out)
  file(READ "${folder}/${name}" text)
  foreach(change IN LISTS ARGN)
    string(REGEX MATCH "^(.*) -> (.*)$" parts "${change}")
    set(before "${CMAKE_MATCH_1}")
    set(after "${CMAKE_MATCH_2}")
    string(REPLACE "<semicolon>" ";" after "${after}")
    string(FIND "${text}" "${before}" first)
    string(FIND "${text}" "${before}" last REVERSE)
    if(first EQUAL -1 OR NOT first EQUAL last)
      message(FATAL_ERROR "${folder}/${name} does not have one \"${before}\": this Lua is not known here")
    endif()
    string(REPLACE "${before}" "${after}" text "${text}")
  endforeach()
  set(made "${PROJECT_BINARY_DIR}/lua/${name}")
  file(CONFIGURE OUTPUT "${made}" CONTENT "${text}" @ONLY)
  set(${out} "${made}" PARENT_SCOPE)
endfunction()

# Lua goes over a table with weak keys again for every link of a chain through it, in one step that nothing can stop:
# quadratic. Ours gives up after 32 rounds and keeps what is left, as a table without weak keys does.
dllm_lua_changed("${dllm_lua_folder}" lgc.c dllm_lua_lgc
  "int dir = 0 -> int dir = 0, rounds = 0"
  "if (traverseephemeron(g, h, dir)) -> if (rounds > 32 ? (traversestrongtable(g, h), 1) : traverseephemeron(g, h, dir))"
  "dir = !dir -> ++rounds, dir = !dir")
# Texts are compared by their bytes: Lua's way depends on the host's locale and takes a call for every zero byte.
dllm_lua_changed("${dllm_lua_folder}" lvm.c dllm_lua_lvm
  "static int l_strcmp ( -> static int compare_bytes (const TString *l, const TString *r) {
  const size_t sizes[] = {tsslen(l), tsslen(r)}<semicolon>
  const int order = memcmp(getstr(l), getstr(r), sizes[sizes[1] < sizes[0]])<semicolon>
  return order != 0 ? order : (sizes[0] > sizes[1]) - (sizes[0] < sizes[1])<semicolon>
}
#define l_strcmp(l, r) compare_bytes(l, r)

static int compare_by_locale (")
# Numbers are written with a point, whatever locale the host has set.
dllm_lua_changed("${dllm_lua_folder}" lobject.c dllm_lua_lobject
  "#include \"lvm.h\" -> #include \"lvm.h\"\n#include \"lua/plain_numbers.h\"")
dllm_lua_changed("${dllm_lua_folder}" lstrlib.c dllm_lua_lstrlib
  "#include \"lualib.h\" -> #include \"lualib.h\"\n#include \"lua/plain_numbers.h\"")
set(dllm_lua_files "${dllm_lua_lgc}" "${dllm_lua_lvm}" "${dllm_lua_lobject}" "${dllm_lua_lstrlib}")
foreach(part IN ITEMS lapi lauxlib lbaselib lcode lcorolib lctype ldblib ldebug ldo ldump lfunc
                      linit liolib llex lmathlib lmem loadlib lopcodes loslib lparser lstate
                      lstring ltable ltablib ltm lundump lutf8lib lzio)
  list(APPEND dllm_lua_files "${dllm_lua_folder}/${part}.c")
endforeach()
set_source_files_properties(${dllm_lua_files} PROPERTIES LANGUAGE CXX)

add_library(dllm_lua_vm STATIC ${dllm_lua_files})
# Include "lua.h", not "lua.hpp": Debian's headers say extern "C" themselves, upstream's mangle.
target_include_directories(dllm_lua_vm SYSTEM PUBLIC "${dllm_lua_folder}")
target_include_directories(dllm_lua_vm PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_compile_definitions(dllm_lua_vm PUBLIC LUA_USE_POSIX)
# Its warnings are not ours; nor are its habits with pointers, which UBSan would stop at.
target_compile_options(dllm_lua_vm PRIVATE -w -fno-sanitize=undefined)
if(DLLM_SANITIZE) # without optimization a call of a metamethod takes 41 KB of stack, and Lua allows 200 in each other
  target_compile_options(dllm_lua_vm PRIVATE -O1)
endif()
set_target_properties(dllm_lua_vm PROPERTIES POSITION_INDEPENDENT_CODE ON
                      CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_link_libraries(dllm_lua_vm PUBLIC ${CMAKE_DL_LIBS} m PRIVATE dllm_flags)
set_target_properties(dllm_lua_vm PROPERTIES UNITY_BUILD OFF)
