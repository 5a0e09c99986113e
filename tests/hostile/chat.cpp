// Chat templates and conversations that are not trusted.   hostile_chat TEMPLATES.json [FILE]

#include "clients.h"

#include <nlohmann/json.hpp>

#include <vector>

using namespace dllm::hostile;
using Json = nlohmann::ordered_json;

namespace {

const char* const kTemplate =
    "{%- macro head(m) -%}<{{ m.role|upper }}>{%- endmacro -%}\n"
    "{% for m in messages if m.content %}{{ head(m) }}{{ m.content|trim }}{% if not loop.last %}, "
    "{% endif %}"
    "{% for c in m.tool_calls or [] %}{{ c.name }}({{ c.arguments|tojson }}){% endfor %}{% endfor "
    "%}"
    "{% set n = namespace(i=0) %}{% for t in tools %}{% set n.i = n.i + 1 %}{% endfor %}{{ n.i }}"
    "{% if add_generation_prompt %}<ASSISTANT>{% endif %}";
const char* const kConversation =
    R"({"messages": [{"role": "system", "content": "the cat"}, {"role": "user", "content": "sat \u00f6 <m>"},
 {"role": "assistant", "content": "on", "tool_calls": [{"name": "f", "arguments": {"a": [1, 2.5, null, true]}}]}],
 "tools": [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "array"}}}}]})";

std::string render(const dllm_tokenizer* tokenizer, const std::string& source,
                   const std::string& conversation) {
  const auto opts =
      make<Options>([](auto** out) { return dllm_options_new("chat", out, shared_error()); });
  must(dllm_options_set_str(opts.get(), "template", source.c_str(), shared_error()));
  const auto row = make<Batch>([&](auto** out) {
    return dllm_tokenizer_chat(tokenizer, conversation.data(), size_of(conversation), opts.get(),
                               out, shared_error());
  });
  const auto ids = make<Tensor>(
      [&](auto** out) { return dllm_batch_array(row.get(), "ids", out, shared_error()); });
  const Buffer text(dllm_buffer_new());
  must(dllm_tokenizer_decode(tokenizer, static_cast<const int32_t*>(dllm_tensor_data(ids.get())),
                             dllm_tensor_dim(ids.get(), 1), text.get(), shared_error()));
  return {static_cast<const char*>(dllm_buffer_data(text.get())),
          static_cast<size_t>(dllm_buffer_size(text.get()))};
}

// A template is text, or [text, times, text, ...]: a text followed by a number stands so many
// times.
std::string source_of(const Json& written) {
  if (written.is_string()) return written.get<std::string>();
  std::string source;
  for (size_t i = 0; i < written.size(); ++i) {
    const bool many = i + 1 < written.size() && written[i + 1].is_number();
    for (int64_t times = many ? written[i + 1].get<int64_t>() : 1; times > 0; --times)
      source += written[i].get<std::string>();
    i += many ? 1 : 0;
  }
  return source;
}

int32_t status_named(const std::string& name) {
  for (int32_t code = 0; code < 20; ++code) {
    if (name == dllm_status_name(code)) return code;
  }
  return -1;
}

} // namespace

int main(int count, char** arguments) {
  // NOT_FOUND: a text without a tag is the name of a template.
  Harness harness("chat", count - 1, arguments + 1,
                  {DLLM_NOT_FOUND, DLLM_INVALID_ARGUMENT, DLLM_FAILED_PRECONDITION, DLLM_DATA_LOSS,
                   DLLM_UNIMPLEMENTED, DLLM_RESOURCE_EXHAUSTED});
  const Tokenizer tokenizer = tokenizer_of(tiny_tokenizer_json());
  const Feed as_template = [&](const std::string& bytes) {
    return outcome([&] { render(tokenizer.get(), bytes, kConversation); });
  };
  const Feed as_conversation = [&](const std::string& bytes) {
    return outcome([&] { render(tokenizer.get(), kTemplate, bytes); });
  };
  harness.seed("template", kTemplate, as_template);
  harness.seed("conversation", kConversation, as_conversation);

  // Templates written to do harm: each with the status, and the text where there is one.
  const Json list = Json::parse(read_bytes(arguments[1]));
  for (const Json& entry : list) {
    std::string text;
    const Feed feed = [&](const std::string& bytes) {
      return outcome([&] {
        text = render(tokenizer.get(), bytes, entry.value("conversation", kConversation));
      });
    };
    const auto name = entry.at("name").get<std::string>();
    harness.known(name, source_of(entry.at("template")),
                  status_named(entry.at("status").get<std::string>()), entry.value("part", ""),
                  feed);
    if (entry.contains("text"))
      harness.check(text == entry.at("text").get<std::string>(),
                    name + ": the text is \"" + text + "\"");
  }
  harness.check(list.size() >= 40, "at least 40 hostile templates");

  harness.mutants(
      "conversation", [](uint64_t number) { return mutant({kConversation}, Form::json, number); },
      as_conversation);
  std::vector<std::string> sources = {kTemplate};
  for (const Json& entry : list) {
    if (entry.at("template").is_string())
      sources.push_back(entry.at("template").get<std::string>());
  }
  harness.mutants(
      "template", [&](uint64_t number) { return mutant(sources, Form::binary, number); },
      as_template);
  return harness.finish();
}
