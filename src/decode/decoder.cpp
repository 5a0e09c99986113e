#include "decode/decoder.h"

#include "base/error.h"
#include "decode/decoder_setup.h"
#include "decode/trace.h"

#include <algorithm>

namespace dllm::decode {
namespace {

// Below, the largest logit divided by it may be infinite.
constexpr double kLeastTemperature = 1e-6;

float temperature_of(double asked) {
  if (asked > 0 && asked < kLeastTemperature) {
    fail_with_hint("0 takes the likeliest token", Code::invalid_argument,
                   "temperature {} is below {}", asked, kLeastTemperature);
  }
  return static_cast<float>(asked);
}

} // namespace

Decoder::Decoder(std::shared_ptr<model::Model> model, const Options& options)
    : model_(std::move(model)), options_(policy_options(options)), schedule_(schedule_of(options_)),
      policy_(make_policy(options_.str("policy"), policy_setup(*model_, options_, *schedule_))),
      mask_id_(mask_id_of(*model_, *policy_)),
      program_(model_, step_settings(*model_, options_, *policy_)), state_(model_, program_.shift()),
      version_(model_->version()) {
  set_loop(step_settings(*model_, options_, *policy_));
}

Decoder::~Decoder() = default;

void Decoder::set_draws(std::shared_ptr<const DrawSource> draws) {
  draws_ = std::move(draws);
  stop_loop("random numbers come from a source of the caller");
  program_.set_noise(draws_ != nullptr && draws_->has_noise());
}

void Decoder::start(std::span<const int32_t> prompt, uint64_t seed) {
  drop_suspended();
  Options settings(slot_schema());
  settings.set_i64("seed", static_cast<int64_t>(seed));
  std::map<int64_t, Request> before = std::move(requests_);
  requests_.clear();
  for (auto& [number, request] : before) drop_cache(request);
  try {
    publish({&request(add_request(prompt, {}, settings))}, true);
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
  drop_suspended();
  const int64_t number = add_request(canvas, fixed, options);
  publish({&request(number)});
  return number;
}

int64_t Decoder::add_request(std::span<const int32_t> canvas, std::span<const uint8_t> fixed,
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
  if (fixed.empty()) {
    const int64_t asked = options.i64("gen_length"); // -1: as the decoder was made
    open_behind = asked < 0 ? options_.i64("gen_length") : asked;
  }
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
  slot.settings.temperature = temperature_of(pick("temperature"));
  slot.settings.top_p = static_cast<float>(pick("top_p"));
  slot.settings.top_k =
      static_cast<int32_t>(options.i64("top_k") < 0 ? options_.i64("top_k") : options.i64("top_k"));
  for (const std::string& text : options.list("stop"))
    slot.settings.stop.push_back(parse_id(text, config.vocab_size, "option stop"));
  while (requests_.count(slot.number) != 0) ++slot.number;
  made.shown_ids = slot.ids;
  made.shown_states = slot.states;
  const model::ModelConfig& own = model_->config();
  slot.span = attention_span_of(own, options_);
  made.session = policy_->begin(slot);
  if (options_.boolean("trace")) {
    made.trace = std::make_shared<TraceLog>(options_.i64("trace_bytes"));
    made.trace->add(slot, {});
  }
  const int64_t number = slot.number;
  requests_.emplace(number, std::move(made));
  return number;
}

void Decoder::drop_cache(Request& request) {
  if (request.cache_row >= 0) state_.release(request.cache_row);
  request.cache_row = -1;
}

void Decoder::remove(int64_t number) {
  drop_suspended();
  drop_cache(request(number));
  requests_.erase(number);
  published_.remove(number, totals());
}

Weights Decoder::take_weights(const Task* task) {
  Weights weights;
  weights.buffers = model_->params().snapshot(&weights.version, task);
  if (weights.version == version_) return weights;
  if (options_.str("on_change") == "fail") {
    fail_with_hint("make a new decoder, or set on_change to continue", Code::failed_precondition,
                   "the model's weights changed from version {} to {}", version_, weights.version);
  }
  state_.lose();
  for (auto& [number, request] : requests_) request.predicted = false; // by the old weights
  version_ = weights.version;
  return weights;
}

SlotCopyRef Decoder::copy_of(const Request& request) const {
  const Slot& slot = request.slot;
  auto copy = std::make_shared<SlotCopy>();
  copy->number = slot.number;
  copy->ids = slot.ids;
  copy->states = slot.states;
  copy->confidence = slot.confidence;
  copy->finish = slot.finish;
  copy->open = slot.open_count(0, slot.length());
  copy->steps = slot.steps;
  copy->evaluations = slot.evaluations;
  copy->nfe = request.session->nfe(slot);
  copy->prefills = slot.prefills;
  copy->commits = slot.commits;
  copy->launches = slot.launches;
  copy->round_trips = slot.round_trips;
  copy->decided = slot.decided;
  if (request.predicted)
    copy->predictions = std::make_shared<const std::vector<Prediction>>(request.predictions);
  copy->trace = request.trace;
  copy->trace_lines = request.trace ? request.trace->lines() : 0;
  return copy;
}

DecoderTotals Decoder::totals() const {
  return {launches_,         round_trips_,    state_.bytes(), state_.rows(),
          state_.capacity(), state_.reused(), program_.computed() + loop_computed_};
}

void Decoder::publish(const std::vector<Request*>& changed, bool drop_others) {
  Published::Slots copies;
  for (const Request* request : changed) copies[request->slot.number] = copy_of(*request);
  published_.put(std::move(copies), totals(), drop_others);
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
  if (request.trace) request.trace->add(slot, outcome.decided);
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
