#include "job.h"

#include "../commands/writing/decoding.h"
#include "logprobs.h"
#include "tool_calls.h"

#include <algorithm>
#include <utility>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

// A stream whose client does not take this many bytes waits. Its texts go on, and nothing is lost.
constexpr size_t kMostWaiting = 1 << 20;

// Makes the completion of a text with a suffix what fills the place before the suffix. An echo has
// the prompt and this text.
void leave_suffix_out(Json& about, const std::string& suffix) {
  about["completion"] = about.at("holes").at(0);
  auto whole = about.at("text").get<std::string>();
  if (whole.ends_with(suffix)) whole.resize(whole.size() - suffix.size());
  about["text"] = whole;
}

} // namespace

Job::Job(ShelvedModelRef model, HttpExchangeRef exchange, AnswerHead head, Asked asked,
         std::vector<int64_t> numbers)
    : model_(std::move(model)), queue_(model_->queue()), exchange_(std::move(exchange)),
      head_(std::move(head)), asked_(std::move(asked)) {
  for (const int64_t number : numbers) texts_.push_back({number});
}

Job::~Job() {
  for (const Text& text : texts_) dllm_queue_remove(queue_.get(), text.number, nullptr);
}

bool Job::is_over() const {
  return std::ranges::all_of(texts_, [](const Text& text) { return text.seen.is_over; });
}

bool Job::advance() {
  if (exchange_->is_gone()) return false;
  if (exchange_->waiting_bytes() > kMostWaiting) return true;
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (!update(i)) return false;
  }
  if (!is_over()) return true;
  finish();
  return false;
}

bool Job::update(size_t index) {
  Text& text = texts_[index];
  if (text.seen.is_over) return true;
  try {
    const Queue::Progress now =
        queue_.wait(text.number, text.seen.version, std::chrono::milliseconds(0));
    if (now.version == text.seen.version) return true;
    if (now.is_over) {
      queue_.text_of(text.number, "completion"); // throws the error of a request that failed
      text.about = Json::parse(queue_.describe(text.number));
      if (!asked_.suffix.empty()) leave_suffix_out(text.about, asked_.suffix);
      if (asked_.has_logprobs)
        text.about["logprobs"] =
            logprobs_of(head_.kind, text.about, cells_of(text.about), likely_cells(text.about));
      if (!asked_.tools.is_null()) take_calls(text.about, index);
    }
    const bool has_step = now.version > 1; // an error before the first step has a status of its own
    text.seen = now;
    if (!asked_.is_stream || !has_step) return true;
    begin_stream();
    if (asked_.has_canvas) send_canvas(index);
    send_piece(index);
    return true;
  } catch (const Failure& failure) {
    fail(failure);
    return false;
  }
}

// Takes the calls of functions out of an answer.
void Job::take_calls(Json& about, size_t index) const {
  const std::string id = "call_" + head_.id + "_" + std::to_string(index) + "_";
  ToolCalls found = tool_calls_of(about.at("completion").get<std::string>(), asked_.tools, id);
  if (found.called.empty()) return;
  about["completion"] = found.content;
  about["tool_calls"] = found.called;
}

void Job::begin_stream() {
  if (std::exchange(is_begun_, true)) return;
  exchange_->begin({200, "text/event-stream", "", {}});
  if (head_.kind != AskKind::chat) return;
  for (size_t i = 0; i < texts_.size(); ++i) {
    Json piece = piece_of_answer(head_, i, "", nullptr);
    piece["choices"][0]["delta"] = {{"role", "assistant"}, {"content", ""}};
    exchange_->write(event_text(piece));
  }
}

void Job::send_piece(size_t index) {
  Text& text = texts_[index];
  std::string next = queue_.text_of(text.number, "next");
  // With a suffix the new final text begins with the prompt. What may be a call is not content.
  if (!asked_.suffix.empty() || !asked_.tools.is_null())
    next = text.about.is_null() ? "" : text.about.at("completion").get<std::string>();
  if (next.empty() && text.about.is_null()) return;
  if (asked_.has_echo && !std::exchange(text.has_prompt, true)) next = prompt_of(text) + next;
  // The last piece has the reason of the end, and clients expect no text in it.
  if (!next.empty()) exchange_->write(event_text(piece_of_answer(head_, index, next, nullptr)));
  if (text.about.is_null()) return;
  if (text.about.contains("tool_calls"))
    exchange_->write(event_text(piece_of_calls(head_, index, text.about["tool_calls"])));
  exchange_->write(event_text(piece_of_answer(head_, index, "", text.about)));
}

std::string Job::prompt_of(const Text& text) const {
  const Json about = text.about.is_null() ? Json::parse(queue_.describe(text.number)) : text.about;
  auto whole = about.at("text").get<std::string>();
  const std::string& own = about.at("completion").get_ref<const std::string&>();
  if (whole.ends_with(own)) whole.resize(whole.size() - own.size());
  return whole;
}

std::vector<std::string> Job::cells_of(const Json& about) const {
  const Tokenizer tokenizer = queue_.tokenizer();
  Answer answer = endless_answer(tokenizer.get());
  answer.update(about.at("ids").get<std::vector<int32_t>>(),
                about.at("states").get<std::vector<uint8_t>>());
  return answer.cells();
}

// Returns the texts of the likely tokens: for each rank the texts of all positions.
std::vector<std::vector<std::string>> Job::likely_cells(const Json& about) const {
  std::vector<std::vector<std::string>> ranks;
  const Json top = about.value("top", Json::array());
  size_t most = 0;
  for (const Json& own : top) most = std::max(most, own.size());
  for (size_t rank = 0; rank < most; ++rank) {
    Json other = {{"ids", about.at("ids")}, {"states", about.at("states")}};
    for (size_t i = 0; i < top.size(); ++i) {
      if (rank < top[i].size()) other["ids"][i] = top[i][rank][0];
    }
    ranks.push_back(cells_of(other));
  }
  return ranks;
}

void Job::send_canvas(size_t index) {
  const Text& text = texts_[index];
  const Json about = text.about.is_null() ? Json::parse(queue_.describe(text.number)) : text.about;
  const Json piece =
      canvas_piece(index, queue_.text_of(text.number, "canvas"), cells_of(about), about);
  exchange_->write(event_text(piece, "canvas"));
}

std::vector<Json> Job::abouts() const {
  std::vector<Json> all;
  for (const Text& text : texts_) all.push_back(text.about);
  return all;
}

void Job::finish() {
  if (!asked_.is_stream)
    return exchange_->send(json_answer(whole_answer(head_, asked_.has_echo, abouts())));
  begin_stream();
  if (asked_.has_usage) exchange_->write(event_text(usage_piece(head_, abouts())));
  exchange_->write("data: [DONE]\n\n");
  exchange_->end();
}

void Job::fail(const Failure& failure) {
  if (!is_begun_)
    return exchange_->send(error_answer(failure.status(), failure.what(), failure.hint()));
  exchange_->write(event_text(error_json(failure.status(), failure.what(), failure.hint())));
  exchange_->end();
}

} // namespace dllm::cli
