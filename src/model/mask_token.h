#pragma once
// Which token stands for a masked one.

#include "ckpt/gguf.h"
#include "model/model.h"

namespace dllm::model {

// wanted: option mask_token, a token's text or id; "": the config's, else a token with a usual name
// in the tokenizer files or the GGUF vocabulary (may be null). Fails with not_found for a text that
// is no token.
void resolve_mask_token(Model& model, const std::string& wanted, const ckpt::GgufFile* gguf);

} // namespace dllm::model
