#pragma once
// The tokenizer's files that every save of a model writes.

#include "base/input_file.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace dllm::model {

// Replaces tokenizer.json. Fails with invalid_argument for more tokens than the model's vocabulary has rows.
void set_tokenizer(Model& model, const text::Tokenizer& tokenizer);

// The same for the tokenizer inside a .gguf file. A model whose tokenizer cannot be used still loads: the reason is
// logged, and loading the tokenizer alone fails with the same message.
void set_gguf_tokenizer(Model& model, const Source& source);

} // namespace dllm::model
