#ifndef DLLM_LUA_H
#define DLLM_LUA_H
/* dllm/lua.h -- run Lua scripts inside the library.
 *
 *     dllm_lua_new(NULL, &lua, err);
 *     dllm_lua_set_object(lua, "model", "model", model, err);
 *     dllm_lua_run_file(lua, "train.lua", "[\"--steps\", 100]", 16, task, answer, err);
 *
 * Scripts use the module "dllm", which uses only the functions of these headers. The values that a
 * script returns are written as a JSON array. In a build without Lua every function here that can
 * fail returns DLLM_UNIMPLEMENTED.
 *
 * The levels of option sandbox; use safe for scripts that are not trusted:
 *
 *     safe    the language, and functions of the library without a path; a script cannot read or
 *             write a file, load native code or print
 *     files   also functions of the library with a path below the folders of option roots; a path
 *             has no ".." and no link that leads out of them, and plugins are refused
 *     full    everything: the standard libraries of Lua, any path, plugins
 *
 * A function that a level does not allow fails with DLLM_PERMISSION_DENIED. Below level full a
 * script cannot change settings of an engine of the host.
 *
 * Limits   memory_limit counts the script's heap, the arrays of the library's objects that the
 *          script creates, and an estimate of other memory of these objects. It does not limit the
 *          memory of the process. A call of the library may use a few times the bytes of its
 *          arguments until it returns. step_limit counts instructions, and the work of library
 *          functions. Below level full a text has at most 32 MiB, a block of a table 128 MiB and a
 *          row that a script adds to a dataset 1 MiB. At every level JSON has at most 64 levels and
 *          4,194,304 values, as input and as output.
 *
 * Scripts cannot catch the errors that end a call. A cancelled task ends it with DLLM_CANCELLED, a
 * task's deadline with DLLM_DEADLINE_EXCEEDED, the step limit with DLLM_RESOURCE_EXHAUSTED. A
 * running call of the library without a task is finished first.
 *
 * Finalizers (__gc) of scripts run only during calls that run scripts, not while a global is set or
 * when the runner is released.
 *
 * Lifetime   a runner keeps the objects it was given alive.
 * Threads    one call at a time per runner; different runners may run together.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates a runner with its own Lua state.
 *
 * The options of kind "lua":
 *
 *     sandbox        safe files full, see above
 *     roots          list of folders that level files may use
 *     memory_limit   bytes; 0: no limit; -1: 1 GiB, or no limit at level full
 *     step_limit     instructions of one call; 0: no limit
 *     path           folders of modules for require, separated by ';' (level full)
 *     seed           seed of math.random
 *
 *   opts   NULL: defaults; kind "lua": sandbox (safe files full), roots (list), memory_limit,
 *          step_limit, path, seed
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for a root that is not a folder; DLLM_UNIMPLEMENTED in a build
 *          without Lua
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_lua_new(const dllm_options *opts, dllm_lua **out, dllm_error *err);

/** Releases a runner; objects that scripts created are released with it.
 *
 *   lua   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases lua
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_lua_release(dllm_lua *lua);

/** Sets a global to the value of a JSON text.
 *
 *   lua    not NULL
 *   name   not NULL, the global's name
 *   json   not NULL, any JSON value
 *   size   bytes of json, 0 or more
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for text that is not JSON or over the limits
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_lua_set_json(dllm_lua *lua, const char *name, const char *json,
                                       int64_t size, dllm_error *err);

/** Sets a global to an object of the library; Lua keeps its own reference.
 *
 *   lua      not NULL
 *   name     not NULL, the global's name
 *   kind     not NULL, the handle's noun: "batch" "dataset" "engine" "model" "objective" "schedule"
 *            "tensor" "tokenizer"
 *   object   not NULL, a handle of that kind
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for an unknown kind; DLLM_INVALID_ARGUMENT for a handle of
 *          another kind, in builds that detect it
 * Owns     lua keeps object
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_lua_set_object(dllm_lua *lua, const char *name, const char *kind,
                                         void *object, dllm_error *err);

/** Runs a file.
 *
 *   lua         not NULL
 *   path        not NULL
 *   args_json   NULL only when size is 0; a JSON array, the script's `...` and `arg`
 *   size        bytes of args_json, 0 or more; 0: no arguments
 *   task        NULL, or checked every few thousand instructions and passed to long calls
 *   out_json    NULL, or gets a JSON array of what the script returns
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_SCRIPT_FAILED, the message has file and line, the hint the
 *          traceback; DLLM_RESOURCE_EXHAUSTED at the memory limit or the step limit;
 *          DLLM_CANCELLED; DLLM_DEADLINE_EXCEEDED; the status of a failed call of the library that
 *          the script did not catch, or of an error {code = "..."} of its own
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_lua_run_file(dllm_lua *lua, const char *path, const char *args_json,
                                       int64_t size, dllm_task *task, dllm_buffer *out_json,
                                       dllm_error *err);

/** Runs a text.
 *
 *   lua        not NULL
 *   name       not NULL, the name of the text in messages
 *   code       NULL only when size is 0
 *   size       bytes of code, 0 or more
 *   task       NULL, or checked every few thousand instructions and passed to long calls
 *   out_json   NULL, or gets a JSON array of what the text returns
 *
 * Returns  as dllm_lua_run_file
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_lua_run_text(dllm_lua *lua, const char *name, const char *code,
                                       int64_t size, dllm_task *task, dllm_buffer *out_json,
                                       dllm_error *err);

/** Calls a global function.
 *
 *   lua         not NULL
 *   function    not NULL, a global's name; dots reach into tables
 *   args_json   NULL only when size is 0; a JSON array of arguments
 *   size        bytes of args_json, 0 or more; 0: no arguments
 *   task        NULL, or checked every few thousand instructions and passed to long calls
 *   out_json    NULL, or gets a JSON array of what the function returns
 *
 * Returns  as dllm_lua_run_file; DLLM_NOT_FOUND when there is no such function
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_lua_call(dllm_lua *lua, const char *function, const char *args_json,
                                   int64_t size, dllm_task *task, dllm_buffer *out_json,
                                   dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
