#include "handles.h"

using namespace dllm;
using namespace dllm::abi;

dllm_status dllm_schedule_new(const char* name, const dllm_options* opts, dllm_schedule** out,
                              dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const std::string wanted = need_text(name, "name");
    noise::schedule_schema(wanted); // fails for an unknown name before the options are checked
    *out = new dllm_schedule(noise::make_schedule(wanted, options_of(opts, "schedule:" + wanted)));
  });
}

dllm_status dllm_schedule_table(const double* t, const double* alpha, const double* dalpha,
                                const double* weight, int64_t count, dllm_schedule** out,
                                dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const auto column = [&](const double* data, const char* name) {
      return need_array(data, count, name);
    };
    const auto maybe = [&](const double* data, const char* name) {
      return data == nullptr ? std::span<const double>() : need_array(data, count, name);
    };
    *out = new dllm_schedule(noise::table_schedule(
        column(t, "t"), column(alpha, "alpha"), maybe(dalpha, "dalpha"), maybe(weight, "weight")));
  });
}

void dllm_schedule_release(dllm_schedule* schedule) {
  release(schedule);
}

dllm_status dllm_schedule_eval(const dllm_schedule* schedule, const double* t, int64_t count,
                               double* dst_alpha, double* dst_dalpha, double* dst_weight,
                               dllm_error* err) {
  return guard(err, [&] {
    const noise::Schedule& object = *need(schedule, "schedule").object;
    const auto times = need_array(t, count, "t");
    for (double time : times) {
      if (!(time >= 0 && time <= 1)) fail(Code::invalid_argument, "t = {} is not in 0 to 1", time);
    }
    for (size_t i = 0; i < times.size(); ++i) {
      if (dst_alpha != nullptr) dst_alpha[i] = object.alpha(times[i]);
      if (dst_dalpha != nullptr) dst_dalpha[i] = object.dalpha(times[i]);
      if (dst_weight != nullptr) dst_weight[i] = object.weight(times[i]);
    }
  });
}
