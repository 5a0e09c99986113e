/* dllm.native -- what the Lua of dllm needs of C in a PUC Lua 5.4: loading a library, calls by libffi, memory.
 *
 * Plain C that keeps no resource of its own over a call into Lua, so that errors may leave it by longjmp.
 * LuaJIT has all this in its ffi; dllm/host_jit.lua takes the place of this file there. A rock cannot leave a file out for
 * one Lua, so it compiles for LuaJIT too, without functions. */
#include <lauxlib.h>
#include <lua.h>

#if LUA_VERSION_NUM < 504
int luaopen_dllm_native(lua_State* L) {
  return luaL_error(L, "dllm.native is for Lua 5.4");
}
#else

#include <dlfcn.h>
#include <ffi.h>
#include <stdint.h>
#include <string.h>

#define OWNER "dllm.owner"
#define MOST_PARAMETERS 16

/* A handle, and the function that releases it. */
typedef struct {
  void* handle;
  void (*release)(void* handle);
} owner;

/* What a callback needs: the state of the call and where its function is on the stack. */
typedef struct {
  lua_State* L;
  int function;
} callback;

typedef union {
  void* pointer;
  int32_t (*function)(const void* event, void* user_data);
  int32_t i32;
  int64_t i64;
  double f64;
} slot;

/* open(path) -> library, or nil and the reason */
static int native_open(lua_State* L) {
  void* library = dlopen(luaL_checkstring(L, 1), RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    lua_pushnil(L);
    lua_pushstring(L, dlerror());
    return 2;
  }
  lua_pushlightuserdata(L, library);
  return 1;
}

/* symbol(library, name) -> address, or nil */
static int native_symbol(lua_State* L) {
  void* address = dlsym(lua_touserdata(L, 1), luaL_checkstring(L, 2));
  if (address == NULL) return 0;
  lua_pushlightuserdata(L, address);
  return 1;
}

/* block(size): zeros */
static int native_block(lua_State* L) {
  const size_t size = (size_t)luaL_checkinteger(L, 1);
  memset(lua_newuserdatauv(L, size > 0 ? size : 1, 0), 0, size);
  return 1;
}

/* bytes(pointer, size) -> string */
static int native_bytes(lua_State* L) {
  const char* from = lua_touserdata(L, 1);
  lua_pushlstring(L, from != NULL ? from : "", from != NULL ? (size_t)luaL_checkinteger(L, 2) : 0);
  return 1;
}

/* text(pointer) -> string up to a 0 byte, nil for NULL */
static int native_text(lua_State* L) {
  lua_pushstring(L, lua_touserdata(L, 1));
  return 1;
}

/* pointer(block) -> the pointer stored in it, nil for NULL */
static int native_pointer(lua_State* L) {
  void** block = lua_touserdata(L, 1);
  if (block == NULL || *block == NULL) return 0;
  lua_pushlightuserdata(L, *block);
  return 1;
}

/* own(handle, release) -> owner, which releases when it is collected */
static int native_own(lua_State* L) {
  owner* made = lua_newuserdatauv(L, sizeof *made, 0);
  made->handle = lua_touserdata(L, 1);
  *(void**)&made->release = lua_touserdata(L, 2);
  luaL_setmetatable(L, OWNER);
  return 1;
}

/* free(owner): releases now; twice is once */
static int native_free(lua_State* L) {
  owner* own = luaL_checkudata(L, 1, OWNER);
  void* handle = own->handle;
  own->handle = NULL;
  if (handle != NULL) own->release(handle);
  return 0;
}

/* handle(owner) -> its handle */
static int native_handle(lua_State* L) {
  lua_pushlightuserdata(L, ((owner*)luaL_checkudata(L, 1, OWNER))->handle);
  return 1;
}

/* The function is Lua's dispatcher, which catches what the host's function raises; 2 is DLLM_FAIL. */
static int32_t on_event(const void* event, void* user_data) {
  const callback* self = user_data;
  lua_State* L = self->L;
  int32_t answer = 2;
  if (!lua_checkstack(L, 4)) return answer;
  lua_pushvalue(L, self->function);
  lua_pushlightuserdata(L, (void*)event);
  if (lua_pcall(L, 1, 1, 0) == LUA_OK) answer = (int32_t)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return answer;
}

/* A pointer argument: nil, a light userdata, the memory of a block, or the bytes of a string. */
static void* pointer_at(lua_State* L, int index) {
  if (lua_type(L, index) == LUA_TSTRING) return (void*)lua_tostring(L, index);
  return lua_touserdata(L, index);
}

static int push_result(lua_State* L, char kind, slot result) {
  switch (kind) {
  case 'v': return 0;
  case 'i': lua_pushinteger(L, result.i32); return 1;
  case 'l': lua_pushinteger(L, result.i64); return 1;
  default:
    if (result.pointer == NULL) return 0;
    lua_pushlightuserdata(L, result.pointer);
    return 1;
  }
}

/* call(address, kinds, ...): kinds is a letter for the result and one per argument. v nothing, i int32, l int64, d double,
 * p pointer, f a Lua function as callback, u its user data. */
static int native_call(lua_State* L) {
  void (*address)(void);
  size_t count = 0;
  const char* kinds = luaL_checklstring(L, 2, &count);
  ffi_type *types[MOST_PARAMETERS], *result_type;
  void* places[MOST_PARAMETERS];
  slot values[MOST_PARAMETERS], result = {NULL};
  callback self = {L, 0};
  ffi_cif cif;
  *(void**)&address = lua_touserdata(L, 1);
  count--;
  luaL_argcheck(L, address != NULL && count <= MOST_PARAMETERS, 2, "cannot be called");
  for (size_t i = 0; i < count; i++) {
    const int index = (int)i + 3;
    types[i] = &ffi_type_pointer;
    places[i] = &values[i];
    values[i].i64 = 0;
    switch (kinds[i + 1]) {
    case 'i':
      types[i] = &ffi_type_sint32;
      values[i].i32 = (int32_t)luaL_checkinteger(L, index);
      break;
    case 'l':
      types[i] = &ffi_type_sint64;
      values[i].i64 = luaL_checkinteger(L, index);
      break;
    case 'd':
      types[i] = &ffi_type_double;
      values[i].f64 = luaL_checknumber(L, index);
      break;
    case 'u': values[i].pointer = &self; break;
    case 'f':
      if (lua_isnoneornil(L, index)) break;
      self.function = index;
      values[i].function = on_event;
      break;
    default: values[i].pointer = pointer_at(L, index);
    }
  }
  result_type = kinds[0] == 'v'   ? &ffi_type_void
                : kinds[0] == 'i' ? &ffi_type_sint32
                : kinds[0] == 'l' ? &ffi_type_sint64
                                  : &ffi_type_pointer;
  if (ffi_prep_cif(&cif, FFI_DEFAULT_ABI, (unsigned)count, result_type, types) != FFI_OK)
    return luaL_error(L, "a call could not be prepared");
  ffi_call(&cif, address, &result, places);
  return push_result(L, kinds[0], result);
}

int luaopen_dllm_native(lua_State* L) {
  static const luaL_Reg functions[] = {{"open", native_open},
                                       {"symbol", native_symbol},
                                       {"call", native_call},
                                       {"block", native_block},
                                       {"bytes", native_bytes},
                                       {"text", native_text},
                                       {"own", native_own},
                                       {"free", native_free},
                                       {"pointer", native_pointer},
                                       {"handle", native_handle},
                                       {NULL, NULL}};
  luaL_newmetatable(L, OWNER);
  lua_pushcfunction(L, native_free);
  lua_setfield(L, -2, "__gc");
  luaL_newlib(L, functions);
  return 1;
}
#endif
