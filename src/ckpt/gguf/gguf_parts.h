#pragma once
// These functions find the .gguf files of a model in a source. A model is one file, or the parts
// "name-00001-of-00003.gguf" that gguf-split made of it. Projectors, adapters and tables of
// importance in the same folder are not models.

#include "base/files.h"
#include "ckpt/gguf/gguf.h"

#include <memory>
#include <string>
#include <vector>

namespace dllm::ckpt {

// Returns true if the source has a .gguf file.
bool holds_gguf(const Source& source);

struct GgufParts {
  std::vector<std::string> files;    // parts in their order; the first has the metadata
  std::vector<std::string> left_out; // files that are not the model: "a-mmproj.gguf (clip)"
};
// Finds the files of the model. Fails with not_found for a missing part, with failed_precondition,
// naming the files, if several or none of them could be the model. REQUIRES: holds_gguf().
GgufParts find_gguf(const Source& source);
// Opens all parts as one file. Fails with data_loss for parts that do not belong together.
std::shared_ptr<const GgufFile> open_gguf(const Source& source, const GgufParts& parts);

// Opens a source as open_source() does. If `path` is one part of a model, the source has all parts
// in the folder.
std::unique_ptr<Source> open_model_source(const std::string& path);

} // namespace dllm::ckpt
