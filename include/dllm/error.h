#ifndef DLLM_ERROR_H
#define DLLM_ERROR_H
/* dllm/error.h -- what went wrong, in words.
 *
 * A call that can fail returns a status and takes a dllm_error of yours as its last argument. Make
 * one per thread and use it again and again; NULL is fine when the status is enough:
 *
 *     dllm_error *err = dllm_error_new();
 *     if (dllm_model_load(engine, path, NULL, NULL, &model, err) != DLLM_OK)
 *       fprintf(stderr, "%s\n%s\n", dllm_error_message(err), dllm_error_hint(err));
 *
 * On success `err` is left alone: look at the returned status, not at the error.
 *
 * Lifetime   stands alone.
 * Threads    one thread at a time per error.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Names a status code in lower case, such as "not_found".
 *
 *   code   any number; one that is no status gives "unknown_status"
 *
 * Returns  text, never NULL
 * Owns     result is lent for ever
 * Threads  any
 * Since    1
 */
DLLM_API const char *dllm_status_name(dllm_status code);

/* Makes an error to pass to other calls.
 *
 * Returns  a new error that holds DLLM_OK; NULL when memory is out
 * Owns     result is yours
 * Threads  any
 * Since    1
 */
DLLM_API dllm_error *dllm_error_new(void);

/* Gives an error back.
 *
 *   err   NULL: does nothing
 *
 * Returns  nothing
 * Owns     err is gone
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_error_release(dllm_error *err);

/* Tells the status of the last failure that was written to this error.
 *
 *   err   NULL: DLLM_OK
 *
 * Returns  a status; DLLM_OK when nothing has failed yet
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_error_code(const dllm_error *err);

/* Tells what failed: one line that names the thing and the numbers.
 *
 *   err   NULL: ""
 *
 * Returns  text, never NULL; "" when nothing has failed yet
 * Owns     result is lent until the next use of err
 * Threads  any
 * Since    1
 */
DLLM_API const char *dllm_error_message(const dllm_error *err);

/* Tells what to try.
 *
 *   err   NULL: ""
 *
 * Returns  text, never NULL; "" when there is no advice
 * Owns     result is lent until the next use of err
 * Threads  any
 * Since    1
 */
DLLM_API const char *dllm_error_hint(const dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
