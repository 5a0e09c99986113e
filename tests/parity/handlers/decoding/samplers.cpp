// torch/samplers: canvases of a decoder after every step, at temperature 0, one file per sampler.
// nano/samplers is here too; it comes with its own random draws.

#include "handlers/decoding/samplers.h"

#include "decode/policies/policies.h"
#include "handlers.h"
#include "handlers/models/reference_names.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dllm::parity {
namespace {

struct Sampler {
  std::string_view class_name;
  void (*run)(Case&, const Json&);
};

constexpr Sampler kSamplers[] = {
    {"BD3LMSampler", run_bd3lm},
    {"DreamSampler", run_dream},
    {"FastdLLMDreamSampler", run_fast_dllm},
    {"FastdLLMLLaDASampler", run_fast_dllm},
    {"LLaDA21Sampler", run_llada21},
    {"LLaDA2Sampler", run_llada2},
    {"MDLMSampler", run_mdlm},
    {"ancestral", run_nano},
    {"ddim", run_nano},
};

void run_samplers_case(Case& c, const Json& entry) {
  const auto name = entry.at("sampler").get<std::string>();
  for (const Sampler& sampler : kSamplers) {
    if (sampler.class_name == name) return sampler.run(c, entry);
  }
  c.skip("sampler " + name + " is not supported yet");
}

void run_transfer(Case& c, const Json& entry) {
  const noise::ScheduleRef schedule =
      reference_schedule(entry.at("scheduler").get<std::string>(), entry, "none");
  const std::vector<int64_t> counts = decode::transfer_counts(
      *schedule, entry.at("masks").get<int64_t>(), entry.at("steps").get<int64_t>());
  c.equal(fmt::format("{}", fmt::join(counts, " ")),
          fmt::format("{}", fmt::join(entry.at("transfer").get<std::vector<int64_t>>(), " ")),
          "transfer");
}

} // namespace

void run_samplers(Topic& topic) {
  for (const Json& entry : topic.list("transfer_schedules")) {
    const std::string name =
        fmt::format("transfer.{}.masks{}.steps{}", entry.at("scheduler").get<std::string>(),
                    entry.at("masks").get<int64_t>(), entry.at("steps").get<int64_t>());
    topic.run(name, [&](Case& c) { run_transfer(c, entry); });
  }
  for (const Json& entry : topic.list("cases")) {
    topic.run(entry, [&](Case& c) { run_samplers_case(c, entry); });
  }
}

} // namespace dllm::parity
