#include "generate/prompt.h"

#include "base/error.h"
#include "base/json.h"
#include "generate/holes.h"
#include "text/answer/text_ends.h"
#include "text/chat/chat.h"
#include "text/unicode.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace dllm::generate {
namespace {

using text::Tokenizer;

void check_one_text(const Options& request) {
  std::string first;
  for (const char* key : {"prompt", "messages", "infill"}) {
    if (!request.is_set(key)) continue;
    const size_t good = text::valid_utf8_end(request.str(key), 0);
    if (good < request.str(key).size()) {
      fail_with_hint("text of another encoding: iconv -f WINDOWS-1252 -t UTF-8",
                     Code::invalid_argument, "{} is not UTF-8 at byte {}", key, good + 1);
    }
    if (!first.empty()) {
      fail_with_hint("a request starts from one of prompt, messages and infill",
                     Code::invalid_argument, "the request has {} and {}", first, key);
    }
    first = key;
  }
}

Prompt of_holes(const Tokenizer& tokenizer, const Options& request, const Task* task) {
  const std::string& text = request.str("infill");
  const std::vector<Hole> holes = find_holes(text);
  std::vector<std::string> ends = text::used_ends(request, text::EndsOf::request);
  if (!request.list("stop_ids").empty()) ends.emplace_back("stop_ids");
  if (!ends.empty()) {
    fail_with_hint("leave it out: a text with holes ends with its last position",
                   Code::invalid_argument, "option {} does not count for an infill", ends.front());
  }
  if (holes.empty()) {
    fail_with_hint("write <mask:16> where 16 tokens are missing", Code::invalid_argument,
                   "the text has no hole");
  }
  Prompt made;
  made.begin = -1;
  const auto add_ids = [&](std::span<const int32_t> ids) {
    made.canvas.insert(made.canvas.end(), ids.begin(), ids.end());
    made.fixed.insert(made.fixed.end(), ids.size(), 1);
  };
  // The tokens that begin a text come once. A piece after a hole begins no word, and the tokens
  // that end a text are left out.
  text::EncodeOptions encoding = tokenizer.encode_options();
  encoding.add_start = encoding.add_start || encoding.add_special;
  encoding.add_special = false;
  encoding.task = task;
  add_ids(tokenizer.encode("", encoding));
  encoding.add_start = false;
  const auto add_given = [&](std::string_view piece) {
    add_ids(tokenizer.encode(piece, encoding));
    encoding.at_start = false;
  };
  const std::string_view whole(text);
  size_t from = 0;
  for (const Hole& hole : holes) {
    add_given(whole.substr(from, hole.begin - from));
    made.canvas.resize(made.canvas.size() + static_cast<size_t>(hole.length)); // ids do not matter
    made.fixed.resize(made.canvas.size());
    from = hole.end;
  }
  add_given(whole.substr(from));
  return made;
}

Options chat_options(const Options& request, bool opens) {
  Options options(text::chat_schema());
  options.set_str("template", request.str("template"));
  options.set_str("name", request.str("template_name"));
  options.set_str("tools", request.str("tools"));
  options.set_str("variables", request.str("variables"));
  options.set_i64("add_generation_prompt", opens ? 1 : 0);
  return options;
}

// Returns the last token of an answer of one word to these messages; nothing if that token is the
// word, or if the template writes no such answer.
std::vector<int32_t> end_of_turn(const std::shared_ptr<const Tokenizer>& tokenizer,
                                 const Options& request, Json messages, const Task* task) {
  const std::string word = "word";
  messages.push_back({{"role", "assistant"}, {"content", word}});
  text::ChatRow row;
  try {
    row = text::Chat(tokenizer, chat_options(request, false)).row(messages, task);
  } catch (const Error& error) {
    if (error.code() == Code::cancelled || error.code() == Code::deadline_exceeded) throw;
    return {};
  }
  for (size_t i = row.ids.size(); i-- > 0;) {
    if (row.spoken[i] == 0) continue;
    const std::string text = tokenizer->decode(std::span(&row.ids[i], 1), text::DecodeOptions());
    const bool is_word =
        word.find(text) != std::string::npos || text.find(word) != std::string::npos;
    return is_word ? std::vector<int32_t>() : std::vector<int32_t>{row.ids[i]};
  }
  return {};
}

Prompt of_messages(const std::shared_ptr<const Tokenizer>& tokenizer, const Options& request,
                   const Task* task) {
  const Json messages = parse_json_option(request.str("messages"), "messages");
  Prompt made;
  made.canvas = text::Chat(tokenizer, chat_options(request, true)).row(messages, task).ids;
  made.begin = static_cast<int64_t>(made.canvas.size());
  made.is_chat = true;
  if (messages.is_array()) made.ends = end_of_turn(tokenizer, request, messages, task);
  return made;
}

} // namespace

Prompt make_prompt(const std::shared_ptr<const Tokenizer>& tokenizer, const Options& request,
                   const Task* task) {
  check_one_text(request);
  if (request.is_set("messages")) return of_messages(tokenizer, request, task);
  if (request.is_set("infill")) return of_holes(*tokenizer, request, task);
  Prompt made;
  made.canvas = tokenizer->encode(request.str("prompt"), task);
  made.begin = static_cast<int64_t>(made.canvas.size());
  return made;
}

} // namespace dllm::generate
