// This file turns the canvas of a decoder into text: open positions, repetition, and the answers of
// the library for requests of the program.

#include "decoding.h"

#include "../pictures/pictures.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

// Returns the number of leading ids that begin every text (bos). They are not printed.
ptrdiff_t count_start(const dllm_tokenizer* tokenizer, const std::vector<int32_t>& ids) {
  const std::vector<int32_t> start = encode(tokenizer, "");
  const bool there =
      start.size() <= ids.size() && std::equal(start.begin(), start.end(), ids.begin());
  return there ? static_cast<ptrdiff_t>(start.size()) : 0;
}

} // namespace

std::string text_with_holes(const dllm_tokenizer* tokenizer, const Canvas& canvas) {
  std::string text;
  const auto is_open = [&](size_t i) { return canvas.states[i] == DLLM_MASKED; };
  for (auto begin = static_cast<size_t>(count_start(tokenizer, canvas.ids));
       begin < canvas.ids.size();) {
    size_t end = begin;
    while (end < canvas.ids.size() && is_open(end) == is_open(begin)) ++end;
    const auto at = [&](size_t i) { return canvas.ids.begin() + static_cast<std::ptrdiff_t>(i); };
    text += is_open(begin) ? "<mask:" + std::to_string(end - begin) + ">"
                           : decode(tokenizer, {at(begin), at(end)});
    begin = end;
  }
  return text;
}

Repeats most_repeated(const Canvas& canvas, const std::vector<int32_t>& end_tokens) {
  std::map<int32_t, int64_t> counts;
  Repeats repeats;
  for (size_t i = 0; i < canvas.ids.size(); ++i) {
    if (canvas.states[i] != DLLM_FINAL) continue;
    if (std::ranges::find(end_tokens, canvas.ids[i]) != end_tokens.end()) break;
    ++repeats.tokens;
    repeats.same = std::max(repeats.same, ++counts[canvas.ids[i]]);
  }
  return repeats;
}

std::vector<int32_t> choose_ends(Context& context, const Session& session,
                                 const std::vector<int32_t>& more) {
  std::vector<int32_t> ends;
  const auto add = [&](int32_t id) {
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  };
  const Json wanted = Json::parse(context.option("slot", "stop"));
  for (const Json& word : wanted) { // the decoder refuses a word that is not an id
    const auto text = word.get<std::string>();
    int32_t id = -1;
    std::from_chars(text.data(), text.data() + text.size(), id);
    add(id);
  }
  if (!wanted.empty()) return ends;
  int32_t eos = -1;
  if (dllm_tokenizer_id(session.tokenizer.get(), "eos", &eos, nullptr) == DLLM_OK) add(eos);
  for (const Json& id : session.about.value("end_tokens", Json::array())) add(id.get<int32_t>());
  for (const int32_t id : more) add(id);
  Json stop = Json::array();
  for (const int32_t id : ends) stop.push_back(std::to_string(id));
  const std::string text = Json{{"stop", stop}}.dump();
  call([&](dllm_error* err) {
    return dllm_options_set_json(context.options("slot"), text.data(),
                                 static_cast<int64_t>(text.size()), err);
  });
  return ends;
}

namespace {

Answer make_answer(const dllm_tokenizer* tokenizer, const dllm::api::Options& options) {
  return Answer(make<dllm_answer>([&](dllm_answer** out, dllm_error* err) {
    return dllm_answer_new(tokenizer, options.get(), out, err);
  }));
}

} // namespace

Answer prompted_answer(const Context& context, const dllm_tokenizer* tokenizer, int64_t begin,
                       const std::vector<int32_t>& ends) {
  dllm::api::Options options(
      "answer", {{"begin", begin}, {"prompt", "included"}, {"end_tokens", false}, {"stop", ends}});
  if (context.has("until") && !context.text("until").empty())
    options.set("stop_texts", std::vector<std::string>{context.text("until")});
  return make_answer(tokenizer, options);
}

Answer spoken_answer(const dllm_tokenizer* tokenizer, int64_t begin,
                     const std::vector<int32_t>& ends) {
  return make_answer(
      tokenizer,
      {"answer", {{"begin", begin}, {"prompt", "apart"}, {"end_tokens", false}, {"stop", ends}}});
}

Answer continued_answer(const dllm_tokenizer* tokenizer, int64_t begin,
                        const std::vector<int32_t>& ends) {
  return make_answer(
      tokenizer,
      {"answer", {{"begin", begin}, {"prompt", "before"}, {"end_tokens", false}, {"stop", ends}}});
}

Answer endless_answer(const dllm_tokenizer* tokenizer) {
  return make_answer(tokenizer, {"answer", {{"begin", -1}}});
}

std::vector<TokenCell> cells_of(Answer& answer, const Canvas& canvas) {
  answer.update(canvas.ids, canvas.states);
  std::vector<TokenCell> cells;
  for (std::string& text : answer.cells()) {
    const size_t i = cells.size();
    cells.push_back({std::move(text), canvas.states[i], canvas.confidence[i]});
  }
  return cells;
}

} // namespace dllm::cli
