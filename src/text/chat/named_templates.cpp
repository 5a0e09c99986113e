#include "text/chat/named_templates.h"

#include "base/error.h"
#include "base/named_table.h"

#include <algorithm>

namespace dllm::text {

namespace {

// ChatML (OpenAI 2023): every message is between <|im_start|>role and <|im_end|>.
constexpr const char* kChatml = R"({%- for message in messages %}
{%- if message.role == 'assistant' %}
{{- '<|im_start|>assistant\n' }}
{%- generation %}
{{- (message.content or '') + '<|im_end|>' }}
{%- endgeneration %}
{{- '\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\n' + (message.content or '') + '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- endif %})";

// Llama 3 (Meta 2024, model card "prompt format"): headers name the role, <|eot_id|> ends a turn.
constexpr const char* kLlama3 = R"({{- '<|begin_of_text|>' }}
{%- for message in messages %}
{%- if message.role == 'assistant' %}
{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- generation %}
{{- (message.content or '') | trim + '<|eot_id|>' }}
{%- endgeneration %}
{%- else %}
{%- set role = 'ipython' if message.role == 'tool' else message.role %}
{{- '<|start_header_id|>' + role + '<|end_header_id|>\n\n' }}
{{- (message.content or '') | trim + '<|eot_id|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %})";

// Qwen2 and Qwen2.5 (model card): ChatML with a default system message. Calls of tools are JSON
// between tags, and results of tools are turns of the user. The sentences about tools are ours.
constexpr const char* kQwen = R"({%- set system = 'You are a helpful assistant.' %}
{%- if messages and messages[0].role == 'system' %}
{%- set system = messages[0].content %}
{%- endif %}
{{- '<|im_start|>system\n' + system }}
{%- if tools %}
{{- '\n\n# Tools\n\nThe functions that may be called, as JSON:\n<tools>' }}
{%- for tool in tools %}
{{- '\n' + tool | tojson }}
{%- endfor %}
{{- '\n</tools>\n\nA call is {"name": NAME, "arguments": OBJECT} in <tool_call></tool_call>.' }}
{%- endif %}
{{- '<|im_end|>\n' }}
{%- for message in messages %}
{%- if message.role == 'assistant' %}
{{- '<|im_start|>assistant\n' }}
{%- generation %}
{{- message.content or '' }}
{%- for call in message.tool_calls or [] %}
{%- set function = call.function or call %}
{%- if not loop.first or message.content %}
{{- '\n' }}
{%- endif %}
{{- '<tool_call>\n{"name": "' + function.name + '", "arguments": ' }}
{{- function.arguments if function.arguments is string else function.arguments | tojson }}
{{- '}\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>' }}
{%- endgeneration %}
{{- '\n' }}
{%- elif message.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
{{- '<|im_start|>user' }}
{%- endif %}
{{- '\n<tool_response>\n' + (message.content or '') + '\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
{{- '<|im_end|>\n' }}
{%- endif %}
{%- elif not (loop.first and message.role == 'system') %}
{{- '<|im_start|>' + message.role + '\n' + (message.content or '') + '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- endif %})";

// The parts of Alpaca's prompt.
constexpr std::string_view kWithInput =
    "Below is an instruction that describes a task, paired with an input that provides further "
    "context. Write a response that appropriately completes the request.";
constexpr std::string_view kWithoutInput =
    "Below is an instruction that describes a task. Write a response that appropriately completes "
    "the request.";
constexpr std::string_view kInstruction = "\n\n### Instruction:\n";
constexpr std::string_view kInput = "\n\n### Input:\n";
constexpr std::string_view kResponse = "\n\n### Response:";

// Writes a conversation with the prompt of Alpaca: turns of the user are instructions, and a system
// message replaces the first sentences.
std::string alpaca_template() {
  const auto quoted = [](std::string_view text) { // a text in the template, with \n for line ends
    std::string made = "'";
    for (const char c : text) made += c == '\n' ? "\\n" : std::string(1, c);
    return made + "'";
  };
  return "{%- if messages and messages[0].role == 'system' %}\n"
         "{{- messages[0].content }}\n"
         "{%- else %}\n"
         "{{- " +
         quoted(kWithoutInput) +
         " }}\n"
         "{%- endif %}\n"
         "{%- for message in messages %}\n"
         "{%- if message.role == 'assistant' %}\n"
         "{{- " +
         quoted(kResponse) +
         " }}\n"
         "{%- generation %}\n"
         "{{- (message.content or '') + (eos_token or '') }}\n"
         "{%- endgeneration %}\n"
         "{%- elif message.role != 'system' %}\n"
         "{{- " +
         quoted(kInstruction) +
         " + (message.content or '') }}\n"
         "{%- endif %}\n"
         "{%- endfor %}\n"
         "{%- if add_generation_prompt %}\n"
         "{{- " +
         quoted(kResponse) +
         " }}\n"
         "{%- endif %}";
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

} // namespace

const std::vector<NamedTemplate>& named_templates() {
  static const std::vector<NamedTemplate> table = {
      {"chatml", kChatml}, {"llama3", kLlama3}, {"qwen", kQwen}, {"alpaca", alpaca_template()}};
  return table;
}

bool is_template_name(std::string_view text) {
  return find_named(named_templates(), text, &NamedTemplate::name) != nullptr;
}

std::string template_text(const std::string& name_or_text) {
  if (name_or_text.find('{') != std::string::npos) return name_or_text;
  if (name_or_text.find_first_not_of(" \t\r\n") == std::string::npos)
    fail_with_hint("give a name, or a text with {{ messages }}", Code::not_found,
                   "the chat template is blank");
  return need_named(named_templates(), name_or_text, &NamedTemplate::name, {"chat template"}).text;
}

std::vector<std::string> template_tokens(std::string_view text) {
  std::vector<std::string> tokens;
  for (size_t at = text.find("<|"); at != std::string_view::npos; at = text.find("<|", at + 1)) {
    size_t end = at + 2;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end == at + 2 || !text.substr(end).starts_with("|>")) continue;
    std::string token(text.substr(at, end + 2 - at));
    if (std::find(tokens.begin(), tokens.end(), token) == tokens.end())
      tokens.push_back(std::move(token));
  }
  return tokens;
}

std::string alpaca_prompt(std::string_view instruction, std::string_view input) {
  std::string prompt(input.empty() ? kWithoutInput : kWithInput);
  prompt += kInstruction;
  prompt += instruction;
  if (!input.empty()) {
    prompt += kInput;
    prompt += input;
  }
  prompt += kResponse;
  return prompt;
}

} // namespace dllm::text
