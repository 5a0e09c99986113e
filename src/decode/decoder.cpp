#include "decode/decoder.h"

#include "base/error.h"
#include "decode/trace.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace dllm::decode {
namespace {

int32_t parse_id(const std::string& text, int64_t vocab, const char* what) {
  int32_t id = -1;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), id);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || id < 0 ||
      id >= vocab) {
    fail(Code::invalid_argument, "{} holds \"{}\", which is no token id below {}", what, text,
         vocab);
  }
  return id;
}

// What open positions hold: any token where the policy does not show it to the model.
int32_t mask_id_of(const model::Model& model, const Policy& policy) {
  if (model.config().mask_token_id >= 0) return static_cast<int32_t>(model.config().mask_token_id);
  if (!policy.needs_mask()) return 0;
  fail_with_hint("set option mask_token of the model (a token's text or id), or \"dllm\": "
                 "{\"mask_token_id\"} in its config.json, or train it with a masked objective",
                 Code::failed_precondition, "the model has no mask token");
}

// The keys that were set, as options of the policy's own kind.
Options policy_options(const Options& given) {
  Options own(decoder_schema(given.str("policy")));
  const Json values = given.to_json();
  Json set = Json::object();
  for (const OptionSpec& spec : given.schema().specs()) {
    if (given.is_set(spec.key)) set[spec.key] = values.at(spec.key);
  }
  own.set_json(set);
  return own;
}

noise::ScheduleRef schedule_of(const Options& options) {
  const std::string& name = options.str("schedule");
  const Schema& schema = noise::schedule_schema(name);
  Options own(schema);
  if (options.f64("schedule_eps") >= 0) own.set_f64("eps", options.f64("schedule_eps"));
  if (options.i64("schedule_steps") == 0) return noise::make_schedule(name, own);
  const bool discrete = std::any_of(schema.specs().begin(), schema.specs().end(),
                                    [](const OptionSpec& spec) { return spec.key == "steps"; });
  if (!discrete) {
    fail_with_hint("leave schedule_steps at 0, or use a nano_ schedule", Code::invalid_argument,
                   "schedule {} has no discrete times, schedule_steps is {}", name,
                   options.i64("schedule_steps"));
  }
  own.set_i64("steps", options.i64("schedule_steps"));
  return noise::make_schedule(name, own);
}

Sight sight_of(const model::ModelConfig& config, const Options& options) {
  model::AttentionKind kind = model::attention_from_name(options.str("attention"));
  if (kind == model::AttentionKind::automatic) kind = config.attention;
  if (kind == model::AttentionKind::causal) return {1, 0, false};
  if (kind != model::AttentionKind::block_causal) return {};
  const int64_t block = config.block_length > 0 ? config.block_length : options.i64("block_length");
  if (block <= 0)
    fail_with_hint("set block_length", Code::invalid_argument,
                   "block_causal attention needs a block length");
  return {block, 0, false};
}

int64_t most_positions(const model::ModelConfig& config, const Options& options) {
  const int64_t most = options.i64("max_length");
  if (most == 0) return config.max_positions;
  if (most > config.max_positions && config.positions == model::PositionKind::learned) {
    fail_with_hint("leave max_length at 0", Code::invalid_argument,
                   "max_length {} is more than the {} learned positions of the model", most,
                   config.max_positions);
  }
  return most;
}

PolicySetup policy_setup(const model::Model& model, const Options& options,
                         const noise::Schedule& schedule) {
  for (const std::string& text : options.list("guidance_keep"))
    parse_id(text, model.config().vocab_size, "option guidance_keep");
  const int shift =
      options.i64("shift") < 0 ? model.config().shift : static_cast<int>(options.i64("shift"));
  const auto mask_id = static_cast<int32_t>(model.config().mask_token_id);
  return {options, schedule, model.config(), mask_id, sight_of(model.config(), options), shift};
}

StepSettings step_settings(const model::Model& model, const Options& options,
                           const Policy& policy) {
  StepSettings settings;
  const model::ModelConfig& config = model.config();
  settings.shift = options.i64("shift") < 0 ? config.shift : static_cast<int>(options.i64("shift"));
  settings.top = std::min(policy.top(), config.vocab_size);
  settings.shaped = policy.shaped();
  settings.nucleus_first = policy.nucleus_first();
  settings.soft_width = policy.soft_width();
  settings.banned.assign(static_cast<size_t>(config.vocab_size), 0);
  for (const std::string& text : options.list("suppress"))
    settings.banned[static_cast<size_t>(parse_id(text, config.vocab_size, "option suppress"))] = 1;
  const std::vector<std::string> deferred = options.list("defer");
  if (!deferred.empty()) settings.deferred.assign(settings.banned.size(), 0);
  for (const std::string& text : deferred)
    settings.deferred[static_cast<size_t>(parse_id(text, config.vocab_size, "option defer"))] = 1;
  if (options.boolean("suppress_mask") && config.mask_token_id >= 0)
    settings.banned[static_cast<size_t>(config.mask_token_id)] = 1;
  return settings;
}

} // namespace

Decoder::Decoder(std::shared_ptr<model::Model> model, const Options& options)
    : model_(std::move(model)), options_(policy_options(options)), schedule_(schedule_of(options_)),
      policy_(make_policy(options_.str("policy"), policy_setup(*model_, options_, *schedule_))),
      mask_id_(mask_id_of(*model_, *policy_)),
      program_(model_, step_settings(*model_, options_, *policy_)), state_(model_),
      version_(model_->version()) {}

Decoder::~Decoder() = default;

void Decoder::set_draws(std::shared_ptr<const DrawSource> draws) {
  draws_ = std::move(draws);
  program_.set_noise(draws_ != nullptr && draws_->has_noise());
}

void Decoder::start(std::span<const int32_t> prompt, uint64_t seed) {
  Options settings(slot_schema());
  settings.set_i64("seed", static_cast<int64_t>(seed));
  std::map<int64_t, Request> before = std::move(requests_);
  requests_.clear();
  for (auto& [number, request] : before) drop_cache(request);
  try {
    add(prompt, {}, settings);
  } catch (...) {
    requests_ = std::move(before);
    throw;
  }
}

void Decoder::open_slot(Slot& slot, std::span<const int32_t> canvas, std::span<const uint8_t> fixed,
                        int64_t length) {
  const int64_t vocab = model_->config().vocab_size;
  for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
    const bool given = i < canvas.size() && (fixed.empty() || fixed[i] != 0);
    if (given && (canvas[i] < 0 || canvas[i] >= vocab)) {
      fail(Code::invalid_argument, "token {} at position {} is not in 0 to {}", canvas[i], i,
           vocab - 1);
    }
    slot.ids.push_back(given ? canvas[i] : mask_id_);
    slot.states.push_back(given ? State::fixed : State::masked);
    slot.confidence.push_back(given ? 1.0f : 0.0f);
  }
  slot.prompt = fixed.empty() ? static_cast<int64_t>(canvas.size()) : 0;
}

int64_t Decoder::add(std::span<const int32_t> canvas, std::span<const uint8_t> fixed,
                     const Options& options) {
  const model::ModelConfig& config = model_->config();
  if (static_cast<int64_t>(requests_.size()) >= options_.i64("slots")) {
    fail_with_hint("remove finished requests, or raise option slots", Code::resource_exhausted,
                   "all {} slots are in use", requests_.size());
  }
  if (!fixed.empty() && fixed.size() != canvas.size()) {
    fail(Code::invalid_argument, "fixed has {} entries, the canvas {}", fixed.size(),
         canvas.size());
  }
  int64_t open_behind = 0;
  if (fixed.empty())
    open_behind =
        options.i64("gen_length") < 0 ? options_.i64("gen_length") : options.i64("gen_length");
  const int64_t length = static_cast<int64_t>(canvas.size()) + open_behind;
  if (length == 0) fail(Code::invalid_argument, "the canvas is empty");
  const int64_t most = most_positions(config, options_);
  if (length > most) {
    fail_with_hint("shorten the prompt or gen_length", Code::out_of_range,
                   "the canvas has {} positions, the model allows {}", length, most);
  }
  Request made;
  Slot& slot = made.slot;
  open_slot(slot, canvas, fixed, length);
  const int64_t given = options.i64("prompt_length");
  if (given > length || (given > 0 && slot.open_count(0, given) > 0)) {
    fail_with_hint("count the given positions at the front of the canvas", Code::invalid_argument,
                   "prompt_length {} reaches beyond the given positions at the front", given);
  }
  if (given >= 0) slot.prompt = given;
  slot.draws = draws_.get();
  slot.settings.seed = static_cast<uint64_t>(options.i64("seed"));
  const auto pick = [&](const char* key) {
    return options.f64(key) < 0 ? options_.f64(key) : options.f64(key);
  };
  slot.settings.temperature = static_cast<float>(pick("temperature"));
  slot.settings.top_p = static_cast<float>(pick("top_p"));
  slot.settings.top_k =
      static_cast<int32_t>(options.i64("top_k") < 0 ? options_.i64("top_k") : options.i64("top_k"));
  for (const std::string& text : options.list("stop"))
    slot.settings.stop.push_back(parse_id(text, config.vocab_size, "option stop"));
  while (requests_.count(slot.number) != 0) ++slot.number;
  const model::ModelConfig& own = model_->config();
  slot.sight = sight_of(own, options_);
  made.session = policy_->begin(slot);
  if (options_.boolean("trace")) slot.trace = trace_line(slot, {});
  const int64_t number = slot.number;
  requests_.emplace(number, std::move(made));
  return number;
}

void Decoder::drop_cache(Request& request) {
  if (request.cache_row >= 0) state_.release(request.cache_row);
  request.cache_row = -1;
}

void Decoder::remove(int64_t number) {
  drop_cache(request(number));
  requests_.erase(number);
}

void Decoder::check_weights() {
  const int64_t now = model_->version();
  if (now == version_) return;
  if (options_.str("on_change") == "fail") {
    fail_with_hint("make a new decoder, or set on_change to continue", Code::failed_precondition,
                   "the model's weights changed from version {} to {}", version_, now);
  }
  state_.lose();
  version_ = now;
}

int64_t Decoder::active_count() const {
  return std::count_if(requests_.begin(), requests_.end(),
                       [](const auto& entry) { return entry.second.slot.active(); });
}

Decoder::Request& Decoder::request(int64_t number) {
  const auto found = requests_.find(number);
  if (found == requests_.end()) fail(Code::not_found, "there is no slot {}", number);
  return found->second;
}

const Decoder::Request& Decoder::request(int64_t number) const {
  return const_cast<Decoder*>(this)->request(number);
}

const Slot& Decoder::slot(int64_t number) const {
  return request(number).slot;
}

// Counts what was done and ends the request at a stop token.
Decoder::Change Decoder::finish(Request& request, Outcome outcome) {
  Slot& slot = request.slot;
  const bool ran = request.asked.end > request.asked.begin;
  ++slot.steps;
  slot.evaluations += ran ? 1 : 0;
  request.predicted = false;
  request.predictions.clear();
  apply_stop(slot, outcome);
  slot.decided += static_cast<int64_t>(outcome.decided.size());
  if (options_.boolean("trace")) slot.trace += trace_line(slot, outcome.decided);
  if (!slot.active()) drop_cache(request);
  return {slot.number, std::move(outcome)};
}

// A stop token with nothing open before it ends the request: what is open behind it becomes that
// token.
void Decoder::apply_stop(Slot& slot, Outcome& outcome) {
  const auto is_stop = [&](int32_t id) {
    const auto& stop = slot.settings.stop;
    return std::find(stop.begin(), stop.end(), id) != stop.end();
  };
  if (slot.settings.stop.empty()) return;
  for (int64_t p = slot.origin; p < slot.length() && !slot.is_open(p); ++p) {
    const auto at = static_cast<size_t>(p);
    if (slot.states[at] != State::final || !is_stop(slot.ids[at])) continue;
    for (int64_t rest = p + 1; rest < slot.length(); ++rest) {
      if (!slot.is_open(rest)) continue;
      slot.decide(rest, slot.ids[at], slot.confidence[at]);
      outcome.decided.push_back(rest);
    }
    slot.finish = Finish::stopped;
    return;
  }
}

} // namespace dllm::decode
