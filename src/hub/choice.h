#pragma once
// Chooses the files of a repository that a model, an adapter or a data set needs.

#include "hub/name.h"
#include "hub/protocol/listing.h"

#include <string>
#include <vector>

namespace dllm::hub {

struct Choice {
  std::vector<RemoteFile> descriptions; // config, tokenizer, chat template: small files
  std::vector<RemoteFile> contents;     // weights or rows
  // The place in the snapshot that the name means: one file, such as a GGUF file, or the folder of
  // the rows of a data set. "": the whole snapshot.
  std::string path;
};

// Chooses the files that `name` means.
// For a model these are config.json, the files of the tokenizer, generation_config.json, chat
// templates and the weights. The weights are model.safetensors or its shards, else
// pytorch_model.bin or its shards, else the only GGUF file. An adapter: adapter_config.json and
// adapter_model.safetensors in addition to such files. A data set: the files that readers of rows
// take. With Name::file: the files that fit it. Fails with not_found if nothing fits, and with
// failed_precondition, listing names and sizes, for several GGUF files.
Choice choose_files(const Listing& listing, const Name& name);

// Returns the files of a data set that readers of rows take, and their common folder as path.
Choice choose_rows(const Listing& listing);

// Returns the descriptions of a model alone. Fails with not_found without a config.
Choice choose_descriptions(const Listing& listing, const Name& name);

} // namespace dllm::hub
