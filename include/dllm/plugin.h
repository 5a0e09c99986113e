#ifndef DLLM_PLUGIN_H
#define DLLM_PLUGIN_H
/* dllm/plugin.h -- find and describe PJRT plugins.
 *
 * A plugin is a shared library of another vendor that compiles and runs programs on one kind of
 * hardware. Engines of kind "pjrt" use a plugin. dllm contains no plugin; `scripts/fetch-plugins`
 * downloads them from PyPI, and so does `pip install` of the package that dllm_plugin_list names.
 * Plugins are searched in the folders of DLLM_PLUGINS, then in Python's packages.
 *
 *     dllm_buffer *found = dllm_buffer_new();
 *     if (dllm_plugin_list(found, err)) return fail(err);
 *     puts(dllm_buffer_data(found));                     [{"platform": "cpu", "paths": [...]}, ...]
 *
 * A search does not load plugins. A plugin that is loaded may end the process (for example for an
 * unknown flag in XLA_FLAGS) or take a minute. A program that must continue first describes plugins
 * and creates engines of them in a child process, as `dllm devices` does.
 *
 * Lifetime   no objects.
 * Threads    any.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Lists the plugins that are found, without loading one.
 *
 * The JSON array has an object for each platform ("cpu" "tpu" "cuda"): platform, paths (an engine
 * uses the first) and packages (for pip install). When none is found, it also has missing: a
 * sentence that names the places that were searched.
 *
 *   out   not NULL; gets the JSON array
 *
 * Returns  DLLM_OK; DLLM_UNIMPLEMENTED in a build without the pjrt engine
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_plugin_list(dllm_buffer *out, dllm_error *err);

/** Loads a plugin into this process and describes it, without using its devices.
 *
 *   plugin   not NULL, a path, or a platform's name: "cpu" "tpu" "cuda"
 *   out      not NULL; gets a JSON object: path, api ("0.115"), attributes
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_UNAVAILABLE for a file that is not a plugin;
 *          DLLM_FAILED_PRECONDITION for one that is too old; DLLM_UNIMPLEMENTED in a build without
 *          the pjrt engine
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_plugin_describe(const char *plugin, dllm_buffer *out, dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
