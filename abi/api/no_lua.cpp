// Implements dllm/lua.h in a build without Lua (DLLM_LUA=OFF), in place of lua.cpp.

#include "dllm/lua.h"

#include "guard.h"

using namespace dllm;
using namespace dllm::abi;

namespace {

dllm_status no_lua(dllm_error* err) {
  return guard(err, [] {
    fail_with_hint("build with DLLM_LUA=ON", Code::unimplemented,
                   "this build of dllm runs no scripts");
  });
}

} // namespace

dllm_status dllm_lua_new(const dllm_options*, dllm_lua**, dllm_error* err) {
  return no_lua(err);
}

void dllm_lua_release(dllm_lua*) {}

dllm_status dllm_lua_set_json(dllm_lua*, const char*, const char*, int64_t, dllm_error* err) {
  return no_lua(err);
}

dllm_status dllm_lua_set_object(dllm_lua*, const char*, const char*, void*, dllm_error* err) {
  return no_lua(err);
}

dllm_status dllm_lua_run_file(dllm_lua*, const char*, const char*, int64_t, dllm_task*,
                              dllm_buffer*, dllm_error* err) {
  return no_lua(err);
}

dllm_status dllm_lua_run_text(dllm_lua*, const char*, const char*, int64_t, dllm_task*,
                              dllm_buffer*, dllm_error* err) {
  return no_lua(err);
}

dllm_status dllm_lua_call(dllm_lua*, const char*, const char*, int64_t, dllm_task*, dllm_buffer*,
                          dllm_error* err) {
  return no_lua(err);
}
