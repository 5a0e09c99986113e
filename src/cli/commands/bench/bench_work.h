#pragma once
// The four things that dllm bench measures, each as a function that does it once.

#include "bench_model.h"

#include <functional>
#include <string>
#include <vector>

namespace dllm::cli {

struct BenchSample {
  double seconds = 0;
  double flops = 0;
};

struct BenchWork {
  std::string what;             // step prefill decode train
  nlohmann::ordered_json sizes; // rows, context, batch, length, logits: what it was made with
  int64_t rows = 0;             // tokens of one repetition
  double bytes = 0;             // of weights that one repetition reads
  std::function<BenchSample()> repeat;
};

// The names of the works, in the order in which dllm bench runs all of them.
const std::vector<std::string>& bench_work_names();

// Fails with a UsageFailure for sizes that the work does not have, before anything is computed.
void check_sizes(const Context& context, const std::string& what);
// The context and the subject outlive the work.
BenchWork make_work(Context& context, BenchSubject& subject, const std::string& what);

// ---- parts of the works ----

BenchWork make_prefill(Context& context, BenchSubject& subject); // bench_decode.cpp
BenchWork make_decode(Context& context, BenchSubject& subject);

// What was typed, else the work's own default.
int64_t size_of_work(const Context& context, const BenchSubject& subject, const std::string& name,
                     const std::string& what);
double seconds_of(const std::function<void()>& work);
// Token ids that repeat late, never the last one; another `turn` has another first token.
std::vector<int32_t> made_up_ids(const BenchSubject& subject, int64_t count, int64_t turn);
Owned<dllm_options> options_with(const char* kind, const nlohmann::ordered_json& values);

} // namespace dllm::cli
