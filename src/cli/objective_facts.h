#pragma once
// ObjectiveFacts describe the rows, the model and the decoder of an objective. They come from the
// library (dllm_options_schema), so that the program does not compare names of objectives.

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace dllm::cli {

struct ObjectiveFacts {
  std::string rows = "masked";         // as in dllm/options.h
  bool packs = true;                   // several texts may share a row
  std::string padding;                 // option that trains the padding after a text; "": none
  int shift = -1;                      // of the loss by default; -1: that of the model
  std::string model = "bidirectional"; // kind of a new model: bidirectional, causal or canvas
  std::string heads;                   // option heads of a new model
  std::string positions;               // option for the most tokens of a text; "": no limit
  std::string policy;                  // policy of its models; "": any policy of masked diffusion
  nlohmann::ordered_json sample;       // decoder options for a sample of a trained model
  bool sample_at_end = false;          // a sample is printed at the end of a training
  bool likelihood = false;             // the loss bounds -log p in nats per token

  // Returns true when rows do not depend on the noise.
  bool is_noiseless() const { return rows == "clean"; }
  // Returns true when rows are cut into blocks of option block_length.
  bool has_blocks() const { return rows == "two_streams"; }
  // Returns true when its models insert and delete tokens, and do not learn to fill masks.
  bool is_of_edits() const { return rows == "edited"; }
  // Returns true when the objective trains on rows of text; scripts make the batches of others.
  bool reads_text() const { return rows != "given" && rows != "sampled"; }
};

// Returns the facts of an objective. An objective that the library lacks, for example of an older
// run, has the facts of masked diffusion.
ObjectiveFacts facts_of(const std::string& objective);
// Returns the names of the objectives that train on rows of text.
std::vector<std::string> text_objectives();

} // namespace dllm::cli
