#pragma once
// Says whether a model fits into the memory of this machine, before its weights are loaded.

#include "../command.h"

#include <nlohmann/json.hpp>

#include <string>

namespace dllm::cli {

// What decoding with one format of the weights needs.
struct FormatNeed {
  std::string format;
  double weights = 0, needs = 0; // bytes
};

struct Fit {
  FormatNeed own;          // with the format of the files
  FormatNeed other;        // the first smaller format that fits; format "": none, or not needed
  double memory = 0;       // bytes that this process may use
  std::string attention;   // of the model
  std::string unknown;     // why nothing is known; "" when the numbers are
  bool is_readable = true; // false: the library has no such family
  bool fits() const { return own.needs <= memory; }
};

// Plans decoding with a model whose config is in `folder`, with `memory` bytes.
Fit fit_of(const std::string& folder, double memory, dllm_task* task);
// Returns "fits: ...", "fits as q4_k: ..." or "does not fit: ..." with the numbers and the policy.
std::string fit_text(const Fit& fit);
nlohmann::ordered_json fit_json(const Fit& fit);

} // namespace dllm::cli
