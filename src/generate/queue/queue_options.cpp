#include "generate/queue/queue_options.h"

#include "generate/generator.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::generate {
namespace {

bool is_of_queue(const std::string& key) {
  return key == "slots" || key == "trace" || key == "trace_bytes";
}

Schema make_queue_schema() {
  std::vector<OptionSpec> keys = {
      option_i64("slots", 8, 1, 1 << 16, "Most requests that are decoded at a time."),
      option_i64("waiting", 256, 0, 1 << 24,
                 "Most requests that wait for a slot. A further one is refused."),
      option_i64("kept", 1024, 1, 1 << 24,
                 "Most requests that are over and were not removed. The oldest is removed first.")};
  for (const OptionSpec& key : generator_schema().specs()) {
    if (!is_of_queue(key.key)) keys.push_back(key);
  }
  return Schema("queue", std::move(keys));
}

} // namespace

const Schema& queue_schema() {
  static const Schema schema = make_queue_schema();
  return schema;
}

const Schema& submission_schema() {
  constexpr int64_t kMost = 1000;
  static const Schema schema(
      "submission",
      {option_i64("priority", 0, -kMost, kMost, "A request of a higher priority goes first."),
       option_str("client", "",
                  "Who asks: clients share the decoder, however many requests each one has."),
       option_f64("timeout", 0, 0, 1e9,
                  "Seconds from the submission to the end of the request; 0: no limit.")});
  return schema;
}

Options generator_options(const Options& queue) {
  Options made(generator_schema());
  const Json values = queue.to_json();
  Json set = Json::object();
  for (const OptionSpec& key : generator_schema().specs()) {
    if (!is_of_queue(key.key) && queue.is_set(key.key)) set[key.key] = values.at(key.key);
  }
  set["slots"] = queue.i64("slots");
  made.set_json(set);
  return made;
}

} // namespace dllm::generate
