#include "generate/request_reader.h"

#include "base/error.h"
#include "decode/method/setup.h"
#include "decode/request/policy.h"
#include "decode/request/request.h"
#include "generate/constraints/constraint_kinds.h"
#include "generate/request_options.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace dllm::generate {
namespace {

void add_new(std::vector<int32_t>& ids, const std::vector<int32_t>& more) {
  for (const int32_t id : more) {
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  }
}

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

RequestReader::RequestReader(std::shared_ptr<model::Model> model,
                             std::shared_ptr<const text::Tokenizer> tokenizer,
                             const Options& options)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)),
      takes_file_(options.boolean("defaults")),
      choice_(options.str("policy") == kAutomatic
                  ? choose_policy(*model_)
                  : PolicyChoice{options.str("policy"), "option policy names it"}),
      automata_(tokenizer_) {}

std::shared_ptr<const TextRequest> RequestReader::read(const Options& request,
                                                       const Task* task) const {
  const std::string& asked = request.str("policy");
  const std::string policy = asked == kAutomatic ? choice_.policy : asked;
  FileSettings from_file =
      read_generation_config(takes_file_ ? model_->generation() : Json::object(), policy, request);
  Options decoding = decoding_options(request, from_file.options);
  Prompt prompt = make_prompt(tokenizer_, request, task);
  const int64_t appended = prompt.fixed.empty() ? decoding.i64("gen_length") : 0;
  decode::check_length(model_->config(), decoding, std::ssize(prompt.canvas) + appended);
  std::vector<int32_t> ends = ends_of(request, prompt);
  Options slot = slot_options(request, ends);
  const auto made = std::make_shared<TextRequest>(TextRequest{
      std::move(prompt), std::move(ends),
      std::make_shared<const text::TextEnds>(request, text::EndsOf::request), request.i64("seed"),
      policy, std::move(from_file), std::move(decoding), std::move(slot), nullptr});
  made->constraint = constraint_of(request, *made, task);
  return made;
}

std::vector<int32_t> RequestReader::ends_of(const Options& request, const Prompt& prompt) const {
  std::vector<int32_t> ends;
  if (prompt.begin < 0) return ends;
  if (request.list("stop_ids").empty()) {
    if (tokenizer_->special().eos >= 0) ends.push_back(tokenizer_->special().eos);
    add_new(ends, model_->token_facts()->ends);
    add_new(ends, prompt.ends);
  }
  for (const std::string& id : request.list("stop_ids"))
    add_new(ends, {decode::parse_id(id, model_->config().vocab_size, "option stop_ids")});
  return ends;
}

std::shared_ptr<const AnswerConstraint>
RequestReader::constraint_of(const Options& options, TextRequest& request, const Task* task) const {
  const ConstraintKind* const kind = chosen_constraint(options);
  if (kind == nullptr) return nullptr;
  check_policy(request.policy);
  const std::vector<std::string> cuts = text::used_ends(options, text::EndsOf::request);
  if (!cuts.empty()) {
    fail_with_hint(fmt::format("leave {} out: the pattern says where the text ends", cuts.front()),
                   Code::invalid_argument, "option {} cuts the text that {} ask for", cuts.front(),
                   constraint_names());
  }
  if (!request.decoding.is_set("suppress_mask"))
    request.decoding.set_json({{"suppress_mask", true}});
  if (!request.decoding.boolean("suppress_mask")) {
    fail_with_hint("leave suppress_mask out", Code::invalid_argument,
                   "a mask token that is drawn leaves its position open, and the text of {} has no "
                   "open position",
                   constraint_names());
  }
  const Prompt& prompt = request.prompt;
  const int64_t begin = std::max<int64_t>(prompt.begin, 0);
  const int64_t length = request.decoding.i64("gen_length");
  // An end token ends the text, so it is not a token inside of it.
  std::vector<uint8_t> banned = decode::banned_tokens(*model_, request.decoding);
  bool may_end = false;
  for (const int32_t end : request.ends) {
    if (end >= std::ssize(banned)) continue;
    may_end = may_end || banned[static_cast<size_t>(end)] == 0;
    banned[static_cast<size_t>(end)] = 1;
  }
  auto made =
      make_constraint(*kind, options, {automata_, banned, begin, request.ends, may_end, task});
  if (made->can_match(given_ids(prompt, length))) return made;
  constexpr int64_t kMost = 1 << 12; // positions that are tried
  const int64_t fewest = prompt.begin < 0 ? -1 : made->fewest_positions(kMost);
  if (fewest > length) {
    fail_with_hint(fmt::format("set length to {} or more", fewest), Code::invalid_argument,
                   "no text of {} tokens matches {}", length, made->what());
  }
  fail_with_hint(prompt.begin < 0 ? "the pattern is for the whole text, with the given parts"
                                  : "let the pattern match longer texts, or set a smaller length",
                 Code::invalid_argument, "no text of the open positions matches {}", made->what());
}

} // namespace dllm::generate
