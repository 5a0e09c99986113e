#pragma once
// What the files of a model say about decoding it: the policy of the objective that trained it, and
// the settings in generation_config.json.

#include "base/json.h"
#include "base/options.h"
#include "model/model.h"

#include <string>
#include <vector>

namespace dllm::generate {

struct PolicyChoice {
  std::string policy;
  std::string reason; // one sentence for people
};

// Returns the policy of a request that names none.
PolicyChoice choose_policy(const model::Model& model);

// The settings that a generation_config.json gives to a request.
struct FileSettings {
  // Of kind "decoder:<policy>", with the values of the file.
  Options options;
  std::vector<std::string> taken;    // keys of options that differ from the defaults
  std::vector<std::string> left_out; // "min_p 0.1 (dllm has no such option)"
};

// Reads generation_config.json for a request under a policy. Keys that the request sets are not
// taken.
FileSettings read_generation_config(const Json& file, const std::string& policy,
                                    const Options& request);

} // namespace dllm::generate
