#pragma once
// Which .gguf files of a source are the model: one file, or the parts that gguf-split made of it,
// "name-00001-of-00003.gguf". Projectors, adapters and tables of importance lie next to models and are none.

#include "base/files.h"
#include "ckpt/gguf.h"

#include <memory>
#include <string>
#include <vector>

namespace dllm::ckpt {

bool holds_gguf(const Source& source);

struct GgufParts {
  std::vector<std::string> files;    // in order; the first has the metadata
  std::vector<std::string> left_out; // "a-mmproj.gguf (clip)"
};
// Fails with not_found for a part that is missing, with failed_precondition naming the files where several could be the
// model. REQUIRES: holds_gguf().
GgufParts find_gguf(const Source& source);
// One model of all its parts; data_loss where they do not belong together.
std::shared_ptr<const GgufFile> open_gguf(const Source& source, const GgufParts& parts);

// As open_source; for one part of a model the source holds all parts that lie next to it.
std::unique_ptr<Source> open_model_source(const std::string& path);

} // namespace dllm::ckpt
