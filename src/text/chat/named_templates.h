#pragma once
// The chat templates that a name stands for, written from the published formats.

#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

struct NamedTemplate {
  std::string name;
  std::string text; // Jinja, with {% generation %} around what the assistant writes
};

// The templates chatml, llama3, qwen and alpaca.
const std::vector<NamedTemplate>& named_templates();
// Returns true when the text is the name of a template.
bool is_template_name(std::string_view text);
// Returns the template of a name; the text of a template is returned unchanged. Fails with
// not_found for a text without a tag, which is neither.
std::string template_text(const std::string& name_or_text);
// Returns the special tokens of the form <|word|> that a template writes, each once, in order.
std::vector<std::string> template_tokens(std::string_view text);

// Returns the prompt of Alpaca (github.com/tatsu-lab/stanford_alpaca, Taori et al. 2023) for an
// instruction, with an input or without.
std::string alpaca_prompt(std::string_view instruction, std::string_view input);

} // namespace dllm::text
