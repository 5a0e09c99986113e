#pragma once
// A BenchWork is one of the four works that dllm bench measures: step, prefill, decode and train.

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
  std::string what;                    // step prefill decode train
  nlohmann::ordered_json sizes;        // sizes of the work: rows, context, batch, length, logits
  int64_t rows = 0;                    // tokens of one repetition
  double bytes = 0;                    // bytes of weights that one repetition reads
  std::function<BenchSample()> repeat; // does the work once
};

// Returns the names of the works in the order in which dllm bench runs them.
const std::vector<std::string>& bench_work_names();

// Fails with a UsageFailure for size options that the work does not have.
void check_sizes(const Context& context, const std::string& what);
// The context and the subject outlive the work.
BenchWork make_work(Context& context, BenchSubject& subject, const std::string& what);

// ---- parts of the works ----

// These two works are in bench_decode.cpp.
BenchWork make_prefill(Context& context, BenchSubject& subject);
BenchWork make_decode(Context& context, BenchSubject& subject);

// Returns the typed size, else the default of the work.
int64_t size_of_work(const Context& context, const BenchSubject& subject, const std::string& name,
                     const std::string& what);
double seconds_of(const std::function<void()>& work);
// Returns token ids that repeat late and never include the last id. `turn` changes the first id.
std::vector<int32_t> made_up_ids(const BenchSubject& subject, int64_t count, int64_t turn);
Owned<dllm_options> options_with(const char* kind, const nlohmann::ordered_json& values);

} // namespace dllm::cli
