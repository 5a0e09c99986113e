#include "generate/generator.h"

#include "decode/request/policy.h"
#include "generate/constraints/constraint_kinds.h"
#include "generate/holes.h"
#include "generate/prompt.h"
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
using decode::RequestCopyRef;
using text::AnswerEnd;
using text::PositionState;

std::vector<PositionState> states_of(const RequestCopy& copy) {
  std::vector<PositionState> states;
  states.reserve(copy.states.size());
  for (const decode::State state : copy.states) states.push_back(static_cast<PositionState>(state));
  return states;
}

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

void add_new(std::vector<int32_t>& ids, const std::vector<int32_t>& more) {
  for (const int32_t id : more) {
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  }
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

Json to_json(const FileSettings& settings) {
  const Json values = settings.options.to_json();
  Json taken = Json::object();
  for (const std::string& key : settings.taken) taken[key] = values.at(key);
  return {{"taken", taken}, {"left_out", settings.left_out}};
}

Json to_json(const Error& error) {
  return {{"code", code_name(error.code())}, {"message", error.text()}, {"hint", error.hint()}};
}

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
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)),
      takes_file_(options.boolean("defaults")),
      choice_(options.str("policy") == kAutomatic
                  ? choose_policy(*model_)
                  : PolicyChoice{options.str("policy"), "option policy names it"}),
      automata_(tokenizer_), decoder_(std::make_shared<decode::Decoder>(
                                 model_, decoder_options(choice_.policy, options))) {}

void Generator::need_idle() const {
  if (!is_running_) return;
  fail_with_hint("return from the callback first", Code::failed_precondition,
                 "the generator runs, and this call is inside its callback");
}

int64_t Generator::add(const Options& request, const Task* task) {
  need_idle();
  const std::string& asked = request.str("policy");
  const std::string policy = asked == kAutomatic ? choice_.policy : asked;
  FileSettings from_file =
      read_generation_config(takes_file_ ? model_->generation() : Json::object(), policy, request);
  const Options decoding = decoding_options(request, from_file.options);
  Prompt prompt = make_prompt(tokenizer_, request, task);
  std::vector<int32_t> ends;
  if (prompt.begin >= 0) {
    if (request.list("stop_ids").empty()) {
      if (tokenizer_->special().eos >= 0) ends.push_back(tokenizer_->special().eos);
      add_new(ends, model_->token_facts()->ends);
      add_new(ends, prompt.ends);
    }
    for (const std::string& id : request.list("stop_ids"))
      add_new(ends, {decode::parse_id(id, model_->config().vocab_size, "option stop_ids")});
  }
  Entry entry{text::Answer(tokenizer_, Options(text::answer_schema())),
              prompt.begin,
              prompt.is_chat,
              ends,
              request.list("stop"),
              request.i64("seed"),
              policy,
              std::move(from_file),
              decoding};
  entry.answer = answer_with(entry, prompt.is_chat ? "apart" : "before");
  entry.constraint = constraint_of(request, prompt, entry, task);
  const int64_t number = decoder_->add(prompt.canvas, prompt.fixed, slot_options(request, ends),
                                       {entry.constraint, decoding});
  try {
    follow(number, entries_.insert_or_assign(number, std::move(entry)).first->second);
  } catch (...) {
    remove(number);
    throw;
  }
  return number;
}

namespace {

// Returns the ids of the canvas that decode::Decoder::add makes, with -1 at open positions.
std::vector<int32_t> given_ids(const Prompt& prompt, int64_t length) {
  std::vector<int32_t> given = prompt.canvas;
  for (size_t i = 0; i < prompt.fixed.size(); ++i) {
    if (prompt.fixed[i] == 0) given[i] = -1;
  }
  if (prompt.fixed.empty()) given.resize(given.size() + static_cast<size_t>(length), -1);
  return given;
}

void check_policy(const std::string& policy) {
  if (decode::writes_in_place(policy)) return;
  fail_with_hint("choose a policy that fills masks, for example low_confidence",
                 Code::unimplemented, "policy {} does not decode under {}", policy,
                 constraint_names());
}

} // namespace

std::shared_ptr<const TextConstraint> Generator::constraint_of(const Options& request,
                                                               const Prompt& prompt,
                                                               const Entry& entry,
                                                               const Task* task) {
  const std::optional<std::string> pattern = constraint_pattern(request);
  if (!pattern) return nullptr;
  check_policy(entry.policy);
  if (!entry.stops.empty()) {
    fail_with_hint("leave stop out: the pattern says where the text ends", Code::invalid_argument,
                   "a stop text cuts the text that {} ask for", constraint_names());
  }
  const int64_t begin = std::max<int64_t>(prompt.begin, 0);
  const int64_t length = entry.decoding.i64("gen_length");
  const auto made =
      std::make_shared<const TextConstraint>(automata_.get(*pattern, task), begin, entry.ends);
  if (made->can_match(given_ids(prompt, length))) return made;
  constexpr int64_t kMost = 1 << 12; // positions that are tried
  const int64_t fewest = prompt.begin < 0 ? -1 : made->fewest_positions(kMost);
  if (fewest > length) {
    fail_with_hint(fmt::format("set length to {} or more", fewest), Code::invalid_argument,
                   "no text of {} tokens matches the pattern \"{}\"", length,
                   pattern->substr(0, 80));
  }
  fail_with_hint(prompt.begin < 0 ? "the pattern is for the whole text, with the given parts"
                                  : "let the pattern match longer texts, or set a smaller length",
                 Code::invalid_argument, "no text of the open positions matches the pattern \"{}\"",
                 pattern->substr(0, 80));
}

void Generator::check_match(Entry& entry, const decode::RequestCopy& copy) const {
  if (entry.constraint == nullptr || entry.failure != nullptr) return;
  std::vector<int32_t> ids = copy.ids; // positions after an end token may be open
  for (size_t i = 0; i < ids.size(); ++i) {
    if (copy.states[i] == decode::State::masked) ids[i] = -1;
  }
  if (entry.constraint->can_match(ids)) return;
  entry.failure = std::make_shared<const Error>(
      Code::internal, fmt::format("policy {} wrote a text that does not match", entry.policy),
      "choose another policy, for example low_confidence");
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
  return std::ranges::count_if(entries_, [](const auto& row) { return !row.second.is_over; });
}

text::Answer Generator::answer_with(const Entry& entry, const char* prompt) const {
  Options options(text::answer_schema());
  options.set_i64("begin", entry.begin);
  options.set_str("prompt", prompt);
  options.set_i64("end_tokens", 0);
  options.set_json({{"stop", entry.ends}, {"stop_texts", entry.stops}});
  return text::Answer(tokenizer_, options);
}

void Generator::follow(int64_t number, Entry& entry) {
  if (entry.is_over) return;
  const RequestCopyRef copy = decoder_->copy(number);
  entry.end = entry.answer.update(copy->ids, states_of(*copy));
  entry.failure = copy->failure;
  if (entry.end == AnswerEnd::stop_text) decoder_->stop(number);
  entry.is_over = entry.end == AnswerEnd::stop_text || !copy->active();
  if (entry.is_over) check_match(entry, *copy);
}

void Generator::follow_all() {
  for (auto& [number, entry] : entries_) follow(number, entry);
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
  return std::ranges::any_of(
      entries_, [](const auto& row) { return !row.second.is_over && !row.second.stops.empty(); });
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
    if (!entry.is_over) open.push_back(number);
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
    follow(number, at(number));
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
  Entry& entry = at(number);
  if (!fn || entry.failure != nullptr) return true;
  const RequestCopyRef copy = decoder_->copy(number);
  Event event(EventKind::text);
  event.set("request", number)
      .set("text", entry.answer.next(text::Answer::Reader::event))
      .set("canvas", text_with_holes(*tokenizer_, copy->ids, states_of(*copy)));
  return emit(fn, event.set("step", copy->steps).set("open", copy->open));
}

bool Generator::send_answers(const EventFn& fn) {
  bool go_on = true;
  for (auto& [number, entry] : entries_) {
    if (!fn || !go_on) return go_on;
    if (!entry.is_over || std::exchange(entry.is_sent, true)) continue;
    const RequestCopyRef copy = decoder_->copy(number);
    Event event(EventKind::answer);
    event.set("request", number).set("finish", std::string(finish_of(entry)));
    if (entry.failure == nullptr)
      event.set("completion", entry.answer.text());
    else
      event.set("error", entry.failure->text());
    event.set("prompt_tokens", count_prompt(entry, *copy))
        .set("completion_tokens", count_tokens(entry, *copy));
    go_on = emit(fn, event.set("steps", copy->steps).set("nfe", copy->nfe));
  }
  return go_on;
}

const char* Generator::finish_of(const Entry& entry) {
  if (entry.failure != nullptr) return "failed";
  switch (entry.end) {
  case AnswerEnd::end_token: return "end_token";
  case AnswerEnd::stop_text: return "stop_text";
  default: return entry.is_over ? "full" : "open";
  }
}

// Returns the number of given tokens.
int64_t Generator::count_prompt(const Entry& entry, const RequestCopy& copy) {
  if (entry.begin >= 0) return std::min(entry.begin, copy.length());
  return std::ranges::count(copy.states, decode::State::fixed);
}

// Returns the number of decided tokens before the end of the answer. The token that completes a
// stop text counts only if the answer has a part of it.
int64_t Generator::count_tokens(Entry& entry, const RequestCopy& copy) {
  if (entry.end == AnswerEnd::stop_text) return count_cells(entry);
  int64_t count = 0;
  for (int64_t i = std::max<int64_t>(entry.begin, 0); i < copy.length(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (std::ranges::find(entry.ends, copy.ids[at]) != entry.ends.end()) break;
    const bool is_decided =
        copy.states[at] == decode::State::final || copy.states[at] == decode::State::provisional;
    if (!is_decided && entry.begin >= 0) break;
    count += is_decided ? 1 : 0;
  }
  return count;
}

// Returns the number of positions after the prompt whose texts cover the answer.
int64_t Generator::count_cells(Entry& entry) {
  const size_t wanted = entry.answer.text().size();
  const std::vector<std::string> cells = entry.answer.cells();
  size_t bytes = 0;
  auto at = static_cast<size_t>(entry.begin);
  while (bytes < wanted && at < cells.size()) bytes += cells[at++].size();
  return static_cast<int64_t>(at) - entry.begin;
}

std::string Generator::text(int64_t number, TextPart part) {
  Entry& entry = at(number);
  if (entry.failure != nullptr) throw Error(*entry.failure);
  switch (part) {
  case TextPart::completion: return entry.answer.text();
  case TextPart::next: return entry.answer.next();
  case TextPart::whole: {
    const RequestCopyRef copy = decoder_->copy(number);
    text::Answer whole = answer_with(entry, "included");
    whole.update(copy->ids, states_of(*copy));
    return whole.text();
  }
  case TextPart::canvas: {
    const RequestCopyRef copy = decoder_->copy(number);
    return text_with_holes(*tokenizer_, copy->ids, states_of(*copy));
  }
  }
  fail(Code::internal, "there is no such part of a text");
}

// Returns the text of each hole. The cells of a hole have the spaces that words begin with.
Json Generator::filled_holes(Entry& entry, const RequestCopy& copy) {
  Json holes = Json::array();
  const std::vector<std::string> cells = entry.answer.cells();
  std::string text;
  for (size_t i = 0; i <= cells.size(); ++i) {
    const bool is_given = i == cells.size() || copy.states[i] == decode::State::fixed;
    const bool was_given = i == 0 || copy.states[i - 1] == decode::State::fixed;
    if (is_given && !was_given) holes.push_back(std::exchange(text, ""));
    if (!is_given && entry.answer.has_text(i)) text += cells[i];
  }
  return holes;
}

Json Generator::describe(int64_t number) {
  Entry& entry = at(number);
  const RequestCopyRef copy = decoder_->copy(number);
  Json made = {{"request", number},
               {"finish", finish_of(entry)},
               {"policy", entry.policy},
               {"seed", entry.seed},
               {"prompt_tokens", count_prompt(entry, *copy)},
               {"completion_tokens", count_tokens(entry, *copy)},
               {"open", copy->open},
               {"steps", copy->steps},
               {"nfe", copy->nfe},
               {"end_tokens", entry.ends},
               {"settings", entry.decoding.to_json()},
               {"from_file", to_json(entry.from_file)},
               {"ids", copy->ids},
               {"states", states_of(*copy)},
               {"confidence", copy->confidence}};
  if (entry.failure != nullptr) {
    made["error"] = to_json(*entry.failure);
    return made;
  }
  made["completion"] = entry.answer.text();
  made["text"] = text(number, TextPart::whole);
  if (entry.begin < 0) made["holes"] = filled_holes(entry, *copy);
  return made;
}

Json Generator::describe() const {
  return {{"policy", choice_.policy},
          {"reason", choice_.reason},
          {"own_policy", choose_policy(*model_).policy},
          {"requests", entries_.size()},
          {"open", open_count()}};
}

} // namespace dllm::generate
