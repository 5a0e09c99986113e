#ifndef DLLM_TESTS_CHECK_H
#define DLLM_TESTS_CHECK_H
/* Lines of TAP: "ok - what" and "not ok - what", a count of failures, and calls that must succeed.
 */
#include "dllm/dllm.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

extern int failures;

/* Prints one line and counts it. */
void check_line(int good, const char* what, const char* file, int line);
/* Ends the program when a call failed that all that follows needs. */
void need_line(dllm_status status, const dllm_error* err, const char* what, const char* file,
               int line);

#define CHECK(condition) check_line((condition) != 0, #condition, __FILE__, __LINE__)
#define NEED(call, err) need_line((call), (err), #call, __FILE__, __LINE__)

#ifdef __cplusplus
}
#endif
#endif
