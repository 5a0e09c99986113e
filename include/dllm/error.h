#ifndef DLLM_ERROR_H
#define DLLM_ERROR_H
/* dllm/error.h -- the status, message and hint of a failure.
 *
 * A call that can fail returns a status and takes a dllm_error as its last argument. Create one per
 * thread and reuse it, or pass NULL when the status is enough:
 *
 *     dllm_error *err = dllm_error_new();
 *     if (dllm_model_load(engine, path, NULL, NULL, &model, err) != DLLM_OK)
 *       fprintf(stderr, "%s\n%s\n", dllm_error_message(err), dllm_error_hint(err));
 *
 * On success `err` is not changed: test the returned status, not the error.
 *
 * Lifetime   an error needs no other object.
 * Threads    one thread at a time per error.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Returns the name of a status code in lower case, such as "not_found".
 *
 *   code   any number; "unknown_status" for one that is not a status
 *
 * Returns  text, never NULL
 * Owns     result is valid for the life of the process
 * Threads  any
 * Since    1
 */
DLLM_API const char *dllm_status_name(dllm_status code);

/** Creates an error to pass to other calls.
 *
 * Returns  a new error that holds DLLM_OK; NULL when out of memory
 * Owns     caller owns result
 * Threads  any
 * Since    1
 */
DLLM_API dllm_error *dllm_error_new(void);

/** Releases an error.
 *
 *   err   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases err
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_error_release(dllm_error *err);

/** Returns the status of the last failure that was written to this error.
 *
 *   err   NULL: DLLM_OK
 *
 * Returns  a status; DLLM_OK when nothing has failed yet
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_error_code(const dllm_error *err);

/** Returns the message: one line that names the object and the numbers.
 *
 *   err   NULL: ""
 *
 * Returns  text, never NULL; "" when nothing has failed yet
 * Owns     result is valid until the next use of err
 * Threads  any
 * Since    1
 */
DLLM_API const char *dllm_error_message(const dllm_error *err);

/** Returns the hint: what to try.
 *
 *   err   NULL: ""
 *
 * Returns  text, never NULL; "" when there is no advice
 * Owns     result is valid until the next use of err
 * Threads  any
 * Since    1
 */
DLLM_API const char *dllm_error_hint(const dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
