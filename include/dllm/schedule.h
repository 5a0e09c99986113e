#ifndef DLLM_SCHEDULE_H
#define DLLM_SCHEDULE_H
/* dllm/schedule.h -- noise schedules: how much is masked at time t, and the weight of the loss.
 *
 * alpha(t) is the probability that a token is kept at time t in [0, 1]. It is 1 at t = 0 and about
 * 0 at t = 1. dalpha is its derivative. weight is the factor of the loss, by default -dalpha / (1 -
 * alpha).
 *
 *     dllm_schedule_new("linear", NULL, &schedule, err);
 *     dllm_objective_new("mdlm", schedule, NULL, &objective, err);
 *
 * A custom schedule is a table of at least two points.
 *
 * Lifetime   objectives keep their schedule alive.
 * Threads    a schedule never changes: many threads may use one.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates a schedule by name: "linear", "cosine", "sqrt".
 *
 *   name   not NULL; dllm_registry_name("schedule", i) lists them
 *   opts   NULL: defaults; kind "schedule": eps
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND, the hint names the nearest
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_schedule_new(const char *name, const dllm_options *opts,
                                       dllm_schedule **out, dllm_error *err);

/** Creates a schedule from a table; between points it is interpolated.
 *
 *   t        not NULL, strictly increasing, within 0 to 1
 *   alpha    not NULL, never increasing, within 0 to 1
 *   dalpha   NULL: derived from alpha
 *   weight   NULL: derived from alpha and dalpha
 *   count    points, 2 or more
 *   out      not NULL
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT, the message names the first bad point
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_schedule_table(const double *t, const double *alpha, const double *dalpha,
                                         const double *weight, int64_t count, dllm_schedule **out,
                                         dllm_error *err);

/** Releases a schedule.
 *
 *   schedule   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases schedule
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_schedule_release(dllm_schedule *schedule);

/** Computes the schedule at many times.
 *
 *   schedule     not NULL
 *   t            NULL only when count is 0; each within 0 to 1
 *   count        times, 0 or more
 *   dst_alpha    NULL, or room for count numbers
 *   dst_dalpha   NULL, or room for count numbers
 *   dst_weight   NULL, or room for count numbers
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for a time out of range
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_schedule_eval(const dllm_schedule *schedule, const double *t,
                                        int64_t count, double *dst_alpha, double *dst_dalpha,
                                        double *dst_weight, dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
