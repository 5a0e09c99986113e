#include "model/tokenizer_files.h"

#include "base/error.h"
#include "base/log.h"

#include <algorithm>

namespace dllm::model {

void set_tokenizer(Model& model, const text::Tokenizer& tokenizer) {
  if (tokenizer.size() > model.config().vocab_size) {
    fail(Code::invalid_argument, "the tokenizer has {} tokens, the model's vocabulary {}", tokenizer.size(),
         model.config().vocab_size);
  }
  const auto put = [&](const char* name, std::string content) {
    const auto text = std::make_shared<const std::string>(std::move(content));
    model.set_side_file(name, Bytes(text->data(), text->size(), text));
  };
  put("tokenizer.json", tokenizer.to_json());
  // A chat template and the like of a loaded model stay.
  const Model::SideFiles files = model.side_files();
  const auto is_config = [](const auto& file) { return file.first == "tokenizer_config.json"; };
  if (std::none_of(files.begin(), files.end(), is_config)) put("tokenizer_config.json", tokenizer.config_json());
  // Several templates with names stay where they came from, in tokenizer_config.json.
  if (tokenizer.chat_templates().size() == 1) put("chat_template.jinja", tokenizer.chat_templates()[0].text);
}

void set_gguf_tokenizer(Model& model, const Source& source) {
  try {
    set_tokenizer(model, *text::Tokenizer::load(source, Options(text::tokenizer_schema())));
  } catch (const Error& error) {
    log(LogLevel::warn, "{}: the tokenizer is left out: {}", source.describe(), error.text());
  }
}

} // namespace dllm::model
