// Conversations of any bytes under templates that are fixed: the first byte chooses the template,
// the rest is JSON. A row or an Error; every id has its mark, and no special token comes out of
// what a message spells.

#include "base/error.h"
#include "base/json.h"
#include "text/chat/chat.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

namespace {

using namespace dllm;
using namespace dllm::text;

constexpr const char* kTemplates[] = {
    // as ChatML
    "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}<e>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}",
    // roles in turn, as of Llama 2 and Gemma
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must take turns') }}{% endif %}{{ m['content'] | trim }}{% endfor "
    "%}",
    // tools and calls, as of Qwen and Llama 3
    "{%- if tools %}{% for tool in tools %}{{ tool | tojson(indent=2) }}{% endfor %}{% endif %}"
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for part in "
    "m.content %}"
    "{{ part.text or part['type'] }}{% endfor %}{% endif %}{% for call in m.tool_calls or [] %}"
    "{% if call.function %}{% set call = call.function %}{% endif %}{{ call.name }}({{ "
    "call.arguments | tojson }})"
    "{% endfor %}{% endfor %}",
    // thoughts cut off, slices and filters
    "{% set n = namespace(last=messages|length - 1) %}{% for m in messages[::-1] %}{% set c = "
    "m.content|string %}"
    "{% if '</t>' in c %}{% set c = c.split('</t>')[-1].lstrip('\\n') %}{% endif %}"
    "{{ loop.index }}{{ c[:9] }}{{ c|upper|replace('A', 'bb') }}{{ m.items()|list|length }}"
    "{{ m|dictsort }}{{ n.last }}{% endfor %}{{ messages|map(attribute='role')|join(', ') }}"
    "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}",
    // the assistant's text is marked
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<e>{% "
    "endgeneration %}"
    "{% else %}{{ m.content }}{% endif %}{% endfor %}"};

std::shared_ptr<const Tokenizer> tokenizer() {
  static constexpr std::string_view kJson =
      R"({"model": {"type": "BPE", "byte_fallback": true, "vocab": {"a": 0, "b": 1, "<e>": 2, "<s>": 3}, "merges": []},)"
      R"("added_tokens": [{"id": 2, "content": "<e>", "special": true}, {"id": 3, "content": "<s>", "special": true}]})";
  static const auto made = std::make_shared<Tokenizer>(read_tokenizer_json(kJson, "tokenizer"),
                                                       Options(tokenizer_schema()));
  return made;
}

const std::vector<Chat>& chats() {
  static const std::vector<Chat> made = [] {
    std::vector<Chat> list;
    for (const char* source : kTemplates) {
      for (const int64_t opens : {0, 1}) {
        Options options(chat_schema());
        options.set_str("template", source);
        options.set_i64("add_generation_prompt", opens);
        list.emplace_back(tokenizer(), options);
      }
    }
    return list;
  }();
  return made;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1 || size > 16384) return 0;
  const size_t which = data[0] % chats().size();
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    const ChatRow row = chats()[which].row(parse_json(text, "messages"));
    if (row.spoken.size() != row.ids.size()) std::abort();
    // Templates 1 to 3 write no special token themselves.
    for (const int32_t id : row.ids) {
      if (which / 2 >= 1 && which / 2 <= 3 && (id == 2 || id == 3)) std::abort();
    }
  } catch (const Error& error) {
    if (error.code() == Code::internal || error.text().empty()) std::abort();
  }
  return 0;
}
