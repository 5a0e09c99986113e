#pragma once
// What the library says of an objective: its rows, the model that it trains and the decoder of such
// models (dllm_options_schema). The program compares no objective by name.

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace dllm::cli {

struct ObjectiveFacts {
  std::string rows = "masked";         // as in dllm/options.h
  bool packs = true;                   // several texts may share a row
  std::string model = "bidirectional"; // a model from scratch: bidirectional, causal or canvas
  std::string heads;                   // option heads of such a model
  std::string policy;                  // the one policy for its models; "": any of masked diffusion
  nlohmann::ordered_json sample;       // options of a decoder that shows what a model learned
  bool sample_at_end = false;          // such a sample is printed when a training ends
  bool likelihood = false;             // the loss bounds -log p in nats per token

  // Every draw of the noise gives the same rows.
  bool is_noiseless() const { return rows == "clean"; }
  // Rows of text are enough; other batches are made by scripts.
  bool reads_text() const { return rows != "given" && rows != "sampled"; }
};

// An objective that the library does not have, as the one of an older run, has the facts of masked
// diffusion.
ObjectiveFacts facts_of(const std::string& objective);
// The objectives that train on rows of text.
std::vector<std::string> text_objectives();

} // namespace dllm::cli
