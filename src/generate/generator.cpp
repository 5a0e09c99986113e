#include "generate/generator.h"

#include "base/error.h"
#include "decode/request/policy.h"
#include "generate/request_options.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

namespace dllm::generate {
namespace {

using decode::RequestCopy;
using text::AnswerEnd;

// Options of a decoder that are options of a generator.
constexpr std::string_view kOfDecoder[] = {"slots", "trace", "trace_bytes", "adapter_folders",
                                           "adapter_bytes"};

Options decoder_options(const std::string& policy, const Options& options) {
  Options made(decode::decoder_schema(policy));
  for (const std::string_view key : kOfDecoder) {
    if (options.is_set(std::string(key)))
      made.set_json({{std::string(key), options.to_json().at(std::string(key))}});
  }
  return made;
}

// Sets a flag while it lives.
class Running {
public:
  explicit Running(bool& flag) : flag_(flag) { flag_ = true; }
  ~Running() { flag_ = false; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

private:
  bool& flag_;
};

} // namespace

const Schema& generator_schema() {
  static const Schema schema = [] {
    std::vector<std::string> policies = decode::policy_names();
    policies.insert(policies.begin(), kAutomatic);
    std::vector<OptionSpec> keys = {
        option_choice("policy", kAutomatic, policies,
                      "Policy of requests that name none; auto: the policy that the model was "
                      "trained for."),
        option_bool("defaults", true,
                    "The settings in generation_config.json hold where a request sets nothing.")};
    for (const OptionSpec& key : decode::decoder_schema("").specs()) {
      if (std::ranges::find(kOfDecoder, key.key) != std::end(kOfDecoder)) keys.push_back(key);
    }
    return Schema("generator", std::move(keys));
  }();
  return schema;
}

Generator::Generator(std::shared_ptr<model::Model> model,
                     std::shared_ptr<const text::Tokenizer> tokenizer, const Options& options)
    : reader_(
          std::make_shared<const RequestReader>(std::move(model), std::move(tokenizer), options)),
      decoder_(std::make_shared<decode::Decoder>(
          reader_->model(), decoder_options(reader_->choice().policy, options))) {}

void Generator::need_idle() const {
  if (!is_running_) return;
  fail_with_hint("return from the callback first", Code::failed_precondition,
                 "the generator runs, and this call is inside its callback");
}

int64_t Generator::add(const Options& request, const Task* task) {
  need_idle();
  return add(reader_->read(request, task));
}

int64_t Generator::add(std::shared_ptr<const TextRequest> request) {
  need_idle();
  const Prompt& prompt = request->prompt;
  RequestText text(reader_->tokenizer(), request);
  const int64_t number = decoder_->add(prompt.canvas, prompt.fixed, request->slot,
                                       {request->constraint, request->decoding});
  try {
    follow(number, entries_.insert_or_assign(number, Entry{std::move(text)}).first->second.text);
  } catch (...) {
    remove(number);
    throw;
  }
  return number;
}

void Generator::remove(int64_t number) {
  need_idle();
  at(number);
  decoder_->remove(number);
  entries_.erase(number);
}

Generator::Entry& Generator::at(int64_t number) {
  const auto found = entries_.find(number);
  if (found == entries_.end()) fail(Code::not_found, "there is no request {}", number);
  return found->second;
}

int64_t Generator::open_count() const {
  return std::ranges::count_if(entries_,
                               [](const auto& row) { return !row.second.text.is_over(); });
}

namespace {

// Returns the number of open positions before an end token.
int64_t count_open(const TextRequest& request, const RequestCopy& copy) {
  int64_t count = 0;
  for (size_t i = 0; i < copy.ids.size(); ++i) {
    if (copy.states[i] == decode::State::masked)
      ++count;
    else if (std::ranges::find(request.ends, copy.ids[i]) != request.ends.end() &&
             copy.states[i] != decode::State::fixed)
      break;
  }
  return count;
}

// Returns an error if the text of a request does not match. A policy could write what was not
// checked, and leave positions open.
std::shared_ptr<const Error> check_match(const TextRequest& request, const RequestCopy& copy) {
  if (request.constraint == nullptr) return nullptr;
  if (const int64_t open = count_open(request, copy); open > 0) {
    return std::make_shared<const Error>(
        Code::failed_precondition,
        fmt::format("{} positions are open after the last step, so the text does not match", open),
        "take more steps, or choose another policy, for example low_confidence");
  }
  std::vector<int32_t> ids = copy.ids; // positions after an end token may be open
  for (size_t i = 0; i < ids.size(); ++i) {
    if (copy.states[i] == decode::State::masked) ids[i] = -1;
  }
  if (request.constraint->can_match(ids)) return nullptr;
  return std::make_shared<const Error>(
      Code::internal, fmt::format("policy {} wrote a text that does not match", request.policy),
      "choose another policy, for example low_confidence");
}

} // namespace

void Generator::follow(int64_t number, RequestText& text) {
  if (text.is_over()) return;
  text.update(decoder_->copy(number));
  if (text.end() == AnswerEnd::stop_text) decoder_->stop(number);
  if (!text.is_over() || text.failure() != nullptr) return;
  if (auto error = check_match(text.request(), text.copy())) text.fail(std::move(error));
}

void Generator::follow_all() {
  for (auto& [number, entry] : entries_) follow(number, entry.text);
}

int64_t Generator::step(Task* task) {
  need_idle();
  return take_step(task);
}

int64_t Generator::take_step(Task* task) {
  if (entries_.empty())
    fail_with_hint("add a request first", Code::failed_precondition, "the generator is empty");
  if (open_count() == 0) return 0;
  try {
    decoder_->step(task);
  } catch (const Error&) {
    follow_all();
    // The decoder throws the error of a request if no other request is active.
    if (open_count() > 0) throw;
  }
  follow_all();
  return open_count();
}

// Whether a request may end before all of its positions are decided.
bool Generator::need_stops() const {
  return std::ranges::any_of(entries_, [](const auto& row) {
    return !row.second.text.is_over() && !row.second.text.request().text_ends->is_empty();
  });
}

bool Generator::run(const EventFn& fn, Task* task) {
  need_idle();
  const Running running(is_running_);
  bool go_on = send_answers(fn); // of requests that a step or an earlier run ended
  while (go_on && open_count() > 0) {
    check_task(task);
    go_on = need_stops() ? run_step(fn, task) : run_decoder(fn, task);
    go_on = go_on && send_answers(fn);
  }
  return go_on;
}

// Takes one step and sends its texts.
bool Generator::run_step(const EventFn& fn, Task* task) {
  std::vector<int64_t> open;
  for (const auto& [number, entry] : entries_) {
    if (!entry.text.is_over()) open.push_back(number);
  }
  take_step(task);
  bool go_on = true;
  for (const int64_t number : open) go_on = go_on && send_text(fn, number);
  return go_on;
}

// Takes steps until the decoder is done, in launches of many steps where the engine has them.
bool Generator::run_decoder(const EventFn& fn, Task* task) {
  const auto after_step = [&](const Event& event) {
    if (event.kind() != EventKind::decode_step) return Answer::go_on;
    const auto number = std::get<int64_t>(*event.find("slot"));
    follow(number, at(number).text);
    return send_text(fn, number) ? Answer::go_on : Answer::stop;
  };
  bool go_on = true;
  try {
    go_on = decoder_->run(fn ? EventFn(after_step) : EventFn(), task);
  } catch (const Error&) {
    follow_all();
    if (open_count() > 0) throw; // else it is the error of a request
  }
  follow_all();
  return go_on;
}

namespace {

bool emit(const EventFn& fn, const Event& event) {
  const Answer answer = fn(event);
  if (answer == Answer::fail) fail(Code::callback_failed, "the callback failed");
  return answer == Answer::go_on;
}

} // namespace

bool Generator::send_text(const EventFn& fn, int64_t number) {
  RequestText& text = at(number).text;
  if (!fn || text.failure() != nullptr) return true;
  const RequestCopy& copy = text.copy();
  Event event(EventKind::text);
  event.set("request", number)
      .set("text", text.next_of_event())
      .set("canvas", text.text(TextPart::canvas));
  return emit(fn, event.set("step", copy.steps).set("open", copy.open));
}

bool Generator::send_answers(const EventFn& fn) {
  bool go_on = true;
  for (auto& [number, entry] : entries_) {
    if (!fn || !go_on) return go_on;
    RequestText& text = entry.text;
    if (!text.is_over() || std::exchange(entry.is_sent, true)) continue;
    Event event(EventKind::answer);
    event.set("request", number).set("finish", std::string(text.finish()));
    if (text.failure() == nullptr)
      event.set("completion", text.text(TextPart::completion));
    else
      event.set("error", text.failure()->text());
    event.set("prompt_tokens", text.prompt_tokens())
        .set("completion_tokens", text.completion_tokens());
    go_on = emit(fn, event.set("steps", text.copy().steps).set("nfe", text.copy().nfe));
  }
  return go_on;
}

std::string Generator::text(int64_t number, TextPart part) {
  return at(number).text.text(part);
}

Json Generator::describe(int64_t number) {
  return at(number).text.describe(number);
}

Json Generator::describe() const {
  return {{"policy", reader_->choice().policy},
          {"reason", reader_->choice().reason},
          {"own_policy", choose_policy(*reader_->model()).policy},
          {"requests", entries_.size()},
          {"open", open_count()}};
}

} // namespace dllm::generate
