// This file turns the canvas of a decoder into text: the texts of tokens, open positions,
// repetition, and the end of an answer.

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

constexpr const char* kBroken = "\xEF\xBF\xBD"; // U+FFFD, for bytes that are not a whole character

bool is_whole(const std::string& text) {
  return text.find(kBroken) == std::string::npos;
}

// Returns the number of leading ids that begin every text (bos). They are not printed.
ptrdiff_t count_start(const dllm_tokenizer* tokenizer, const std::vector<int32_t>& ids) {
  const std::vector<int32_t> start = encode(tokenizer, "");
  const bool there =
      start.size() <= ids.size() && std::equal(start.begin(), start.end(), ids.begin());
  return there ? static_cast<ptrdiff_t>(start.size()) : 0;
}

} // namespace

TokenTexts::TokenTexts(const dllm_tokenizer* tokenizer) : tokenizer_(tokenizer) {
  before_ = encode(tokenizer, "a");
  if (before_.size() > 1) before_ = {before_.back()};
  text_before_ = decode(tokenizer, before_);
  for (const char* role : {"mask", "bos", "eos", "pad"}) {
    int32_t id = -1;
    if (dllm_tokenizer_id(tokenizer, role, &id, nullptr) == DLLM_OK &&
        decode(tokenizer, {id}).empty()) {
      known_[id] = std::string("<") + role + ">";
    }
  }
}

std::string TokenTexts::read(std::span<const int32_t> ids) const {
  std::vector<int32_t> all = before_;
  all.insert(all.end(), ids.begin(), ids.end());
  const std::string text = decode(tokenizer_, all);
  if (text.compare(0, text_before_.size(), text_before_) == 0)
    return text.substr(text_before_.size());
  return decode(tokenizer_, {ids.begin(), ids.end()});
}

const std::string& TokenTexts::of(int32_t id) {
  const auto found = known_.find(id);
  if (found != known_.end()) return found->second;
  return known_[id] =
             id < 0 || id >= dllm_tokenizer_size(tokenizer_) ? std::string() : read({&id, 1});
}

std::vector<TokenCell> TokenTexts::cells(const Canvas& canvas) {
  std::vector<TokenCell> cells;
  for (size_t i = 0; i < canvas.ids.size(); ++i) {
    const bool open = canvas.states[i] == DLLM_MASKED;
    cells.push_back(
        {open ? std::string() : of(canvas.ids[i]), canvas.states[i], canvas.confidence[i]});
    if (!open && cells.back().text.empty())
      cells.back().text = "\u27e8" + std::to_string(canvas.ids[i]) + "\u27e9";
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].state == DLLM_MASKED || is_whole(cells[i].text)) continue;
    for (size_t count = 2; count <= kMostJoined && i + count <= cells.size(); ++count) {
      if (cells[i + count - 1].state == DLLM_MASKED) break;
      const std::string joined = read({canvas.ids.data() + i, count});
      if (!is_whole(joined)) continue;
      cells[i].text = joined_[joined_key(canvas.ids.data() + i, count)] = joined;
      for (size_t k = 1; k < count; ++k) cells[i + k].text.clear();
      i += count - 1;
      break;
    }
  }
  return cells;
}

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

Ending::Ending(Context& context, const Session& session, int64_t prompt)
    : tokenizer_(session.tokenizer.get()), prompt_(prompt) {
  if (prompt_ < 0) return;
  if (context.has("until")) until_ = context.text("until");
  ends_ = choose_ends(context, session);
}

bool Ending::reached(const Canvas& canvas) const {
  if (until_.empty()) return false;
  const auto begin = canvas.states.begin() + prompt_;
  const auto open = std::find_if(begin, canvas.states.end(), [](uint8_t state) {
    return state == DLLM_MASKED || state == DLLM_PROVISIONAL;
  });
  const std::vector<int32_t> decided(canvas.ids.begin() + prompt_,
                                     canvas.ids.begin() + (open - canvas.states.begin()));
  return decode(tokenizer_, decided).find(until_) != std::string::npos;
}

std::string Ending::text(const Canvas& canvas) const {
  const ptrdiff_t start = count_start(tokenizer_, canvas.ids);
  std::vector<int32_t> ids(canvas.ids.begin() + start, canvas.ids.end());
  if (prompt_ < 0) return decode(tokenizer_, ids);
  const auto begin = ids.begin() + (prompt_ - start);
  ids.erase(std::find_first_of(begin, ids.end(), ends_.begin(), ends_.end()), ids.end());
  std::string all = decode(tokenizer_, ids);
  if (until_.empty()) return all;
  // --until counts only in the answer, so it is searched after the text of the prompt.
  ids.resize(static_cast<size_t>(prompt_ - start));
  const size_t found = all.find(until_, std::min(all.size(), decode(tokenizer_, ids).size()));
  return all.substr(0, found);
}

} // namespace dllm::cli
