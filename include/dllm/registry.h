#ifndef DLLM_REGISTRY_H
#define DLLM_REGISTRY_H
/* dllm/registry.h -- lists the registered names: engines, policies, schedules.
 *
 *     const char *name;
 *     for (int64_t i = 0; (name = dllm_registry_name("objective", i)) != NULL; i++) puts(name);
 *
 * Kinds: engine, family, objective, optimizer, options, policy, reader, schedule, sink.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Returns one name of a table of the library, in a fixed order.
 *
 *   kind    NULL: NULL; one of the kinds above
 *   index   0 or more
 *
 * Returns  text; NULL past the end and for an unknown kind
 * Owns     result is valid for the life of the process
 * Threads  any
 * Since    1
 */
DLLM_API const char *dllm_registry_name(const char *kind, int64_t index);

#ifdef __cplusplus
}
#endif
#endif
