#pragma once
// What a path stands for where a model is wanted.

#include <string>

namespace dllm::ckpt {

// The folder or file that holds the model of `path`: of a run folder its latest checkpoint's model folder, of a
// checkpoint folder its model folder, any other path as it is. Fails with not_found for a run without a whole checkpoint.
std::string model_folder(const std::string& path);
// The same for a tokenizer: a run without a whole checkpoint still has its own tokenizer.json.
std::string tokenizer_folder(const std::string& path);

} // namespace dllm::ckpt
