#include "generate/request_text.h"

#include "generate/holes.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::generate {
namespace {

using decode::RequestCopy;
using text::AnswerEnd;
using text::PositionState;

std::vector<PositionState> states_of(const RequestCopy& copy) {
  std::vector<PositionState> states;
  states.reserve(copy.states.size());
  for (const decode::State state : copy.states) states.push_back(static_cast<PositionState>(state));
  return states;
}

constexpr std::string_view kReplacement = "\uFFFD"; // of bytes that are no characters

bool is_replaced(std::string_view text) {
  const bool has_text = !text.empty();
  while (text.starts_with(kReplacement)) text.remove_prefix(kReplacement.size());
  return has_text && text.empty();
}

// Appends a text, with one replacement in place of several in a row.
void append_once(std::string& text, std::string_view more) {
  while (!more.empty()) {
    const bool is_repeat = more.starts_with(kReplacement) && text.ends_with(kReplacement);
    const size_t size = more.starts_with(kReplacement) ? kReplacement.size() : 1;
    if (!is_repeat) text += more.substr(0, size);
    more.remove_prefix(size);
  }
}

Json to_json(const FileSettings& settings) {
  const Json values = settings.options.to_json();
  Json taken = Json::object();
  for (const std::string& key : settings.taken) taken[key] = values.at(key);
  return {{"taken", taken}, {"left_out", settings.left_out}};
}

} // namespace

Json to_json(const Error& error) {
  return {{"code", code_name(error.code())}, {"message", error.text()}, {"hint", error.hint()}};
}

RequestText::RequestText(std::shared_ptr<const text::Tokenizer> tokenizer,
                         std::shared_ptr<const TextRequest> request)
    : tokenizer_(std::move(tokenizer)), request_(std::move(request)),
      answer_(answer_with(request_->prompt.is_chat ? "apart" : "before")) {}

text::Answer RequestText::answer_with(const char* prompt) const {
  Options options(text::answer_schema());
  options.set_i64("begin", request_->prompt.begin);
  options.set_str("prompt", prompt);
  options.set_i64("end_tokens", 0);
  options.set_json({{"stop", request_->ends}});
  return text::Answer(tokenizer_, options, request_->text_ends);
}

void RequestText::update(decode::RequestCopyRef copy) {
  if (is_over_) return;
  copy_ = std::move(copy);
  end_ = answer_.update(copy_->ids, states_of(*copy_));
  failure_ = copy_->failure;
  is_over_ = end_ == AnswerEnd::stop_text || !copy_->active();
}

void RequestText::fail(std::shared_ptr<const Error> error) {
  failure_ = std::move(error);
  is_over_ = true;
}

const char* RequestText::finish() const {
  if (failure_ != nullptr) return "failed";
  if (end_ == AnswerEnd::end_token) return "end_token";
  if (end_ == AnswerEnd::stop_text) return "stop_text";
  if (!is_over_) return "open";
  return copy_->open > 0 ? "incomplete" : "full";
}

// Returns the number of given tokens.
int64_t RequestText::prompt_tokens() const {
  const int64_t begin = request_->prompt.begin;
  if (begin >= 0) return std::min(begin, copy_->length());
  return std::ranges::count(copy_->states, decode::State::fixed);
}

// Returns the number of decided tokens before the end of the answer. The token that completes a
// stop text counts only if the answer has a part of it.
int64_t RequestText::completion_tokens() {
  if (end_ == AnswerEnd::stop_text) return count_cells();
  const int64_t begin = request_->prompt.begin;
  int64_t count = 0;
  for (int64_t i = std::max<int64_t>(begin, 0); i < copy_->length(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (std::ranges::find(request_->ends, copy_->ids[at]) != request_->ends.end()) break;
    const bool is_decided = copy_->states[at] == decode::State::final ||
                            copy_->states[at] == decode::State::provisional;
    if (!is_decided && begin >= 0) break;
    count += is_decided ? 1 : 0;
  }
  return count;
}

// Returns the number of positions after the prompt whose texts cover the answer. The texts of
// single tokens may have more replacements in a row than the answer.
int64_t RequestText::count_cells() {
  const int64_t begin = request_->prompt.begin;
  std::string wanted, seen;
  append_once(wanted, answer_.text());
  const std::vector<std::string> cells = answer_.cells();
  auto at = static_cast<size_t>(begin);
  while (seen.size() < wanted.size() && at < cells.size()) append_once(seen, cells[at++]);
  while (seen.ends_with(kReplacement) && at < cells.size() && is_replaced(cells[at])) ++at;
  return static_cast<int64_t>(at) - begin;
}

std::string RequestText::text(TextPart part) {
  if (failure_ != nullptr) throw Error(*failure_);
  switch (part) {
  case TextPart::completion: return answer_.text();
  case TextPart::next: return answer_.next();
  case TextPart::whole: {
    text::Answer whole = answer_with("included");
    whole.update(copy_->ids, states_of(*copy_));
    return whole.text();
  }
  case TextPart::canvas: return canvas();
  }
  dllm::fail(Code::internal, "there is no such part of a text");
}

std::string RequestText::canvas() const {
  return text_with_holes(*tokenizer_, copy_->ids, states_of(*copy_));
}

// Returns the text of each hole. The cells of a hole have the spaces that words begin with.
Json RequestText::filled_holes() {
  Json holes = Json::array();
  const std::vector<std::string> cells = answer_.cells();
  std::string text;
  for (size_t i = 0; i <= cells.size(); ++i) {
    const bool is_given = i == cells.size() || copy_->states[i] == decode::State::fixed;
    const bool was_given = i == 0 || copy_->states[i - 1] == decode::State::fixed;
    if (is_given && !was_given) holes.push_back(std::exchange(text, ""));
    if (!is_given && answer_.has_text(i)) text += cells[i];
  }
  return holes;
}

// Returns [[id, probability], ...] of each position, and null for one that no step wrote.
Json RequestText::likely_tokens() const {
  Json made = Json::array();
  for (int64_t i = 0; i < copy_->length(); ++i) {
    const auto found = copy_->kept.find(i);
    if (found == copy_->kept.end()) {
      made.push_back(nullptr);
      continue;
    }
    Json all = Json::array();
    for (const decode::TokenShare& share : found->second)
      all.push_back(Json::array({share.id, share.probability}));
    made.push_back(std::move(all));
  }
  return made;
}

Json RequestText::describe(int64_t number) {
  Json made = {{"request", number},
               {"finish", finish()},
               {"policy", request_->policy},
               {"seed", request_->seed},
               {"prompt_tokens", prompt_tokens()},
               {"completion_tokens", completion_tokens()},
               {"open", copy_->open},
               {"steps", copy_->steps},
               {"nfe", copy_->nfe},
               {"end_tokens", request_->ends},
               {"settings", request_->decoding.to_json()},
               {"from_file", to_json(request_->from_file)},
               {"ids", copy_->ids},
               {"states", states_of(*copy_)},
               {"confidence", copy_->confidence}};
  if (!copy_->kept.empty()) made["top"] = likely_tokens();
  if (failure_ != nullptr) {
    made["error"] = generate::to_json(*failure_);
    return made;
  }
  made["completion"] = answer_.text();
  made["text"] = text(TextPart::whole);
  if (request_->prompt.begin < 0) made["holes"] = filled_holes();
  return made;
}

} // namespace dllm::generate
