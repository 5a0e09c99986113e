#include "decode/decoder/decoder.h"

#include "base/error.h"
#include "base/log.h"
#include "decode/trace/published.h"

#include <algorithm>

namespace dllm::decode {
namespace {

// The largest logit divided by a smaller temperature may be infinite.
constexpr double kLeastTemperature = 1e-6;
constexpr const char* kDrawnByCaller = "random numbers come from a source of the caller";

float temperature_of(double asked) {
  if (asked > 0 && asked < kLeastTemperature) {
    fail_with_hint("0 takes the likeliest token", Code::invalid_argument,
                   "temperature {} is below {}", asked, kLeastTemperature);
  }
  return static_cast<float>(asked);
}

} // namespace

Decoder::Decoder(std::shared_ptr<model::Model> model, const Options& options)
    : Decoder(std::move(model), options, {}) {}

Decoder::Decoder(std::shared_ptr<model::Model> model, const Options& options, PolicyMaker make)
    : model_(std::move(model)), make_(std::move(make)),
      method_(std::make_shared<Method>(model_, policy_options(options), 0, make_)),
      program_(model_), state_(model_), version_(model_->version()) {}

Decoder::~Decoder() = default;

void Decoder::set_random_source(std::shared_ptr<const RandomSource> random_source) {
  random_source_ = std::move(random_source);
  method_->stop_loop(kDrawnByCaller);
}

void Decoder::start(std::span<const int32_t> prompt, uint64_t seed) {
  drop_suspended();
  Options settings(request_schema());
  settings.set_i64("seed", static_cast<int64_t>(seed));
  std::map<int64_t, Entry> before = std::move(requests_);
  requests_.clear();
  for (auto& [number, entry] : before) entry.cache_row.release();
  try {
    publish({&entry(add_request(prompt, {}, settings))}, true);
  } catch (...) {
    requests_ = std::move(before);
    throw;
  }
}

// Returns the method for a request. Requests with equal options share it.
std::shared_ptr<Method> Decoder::method_of(const Options& options, const OwnSettings& own) {
  const Options wanted = request_options(own.decoding ? *own.decoding : this->options(), options);
  const std::string text = text_of(wanted);
  const PolicyMaker make = own.decoding ? PolicyMaker() : make_;
  const auto same = [&](const Method& method) {
    return method.text() == text && method.is_named() == !make;
  };
  if (same(*method_)) return method_;
  for (const auto& [number, entry] : requests_) {
    if (same(*entry.method)) return entry.method;
  }
  const auto made = std::make_shared<Method>(model_, wanted, methods_++, make);
  if (random_source_ != nullptr) made->stop_loop(kDrawnByCaller);
  for (const auto& [number, entry] : requests_) made->share_passes(*entry.method);
  made->share_passes(*method_);
  return made;
}

void Decoder::open_canvas(Entry& entry, std::span<const int32_t> canvas,
                          std::span<const uint8_t> fixed, int64_t length) {
  Request& request = entry.request;
  const int64_t vocab = model_->config().vocab_size;
  for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
    const bool given = i < canvas.size() && (fixed.empty() || fixed[i] != 0);
    if (given && (canvas[i] < 0 || canvas[i] >= vocab)) {
      fail(Code::invalid_argument, "token {} at position {} is not in 0 to {}", canvas[i], i,
           vocab - 1);
    }
    request.ids.push_back(given ? canvas[i] : entry.method->mask_id());
    request.states.push_back(given ? State::fixed : State::masked);
    request.confidence.push_back(given ? 1.0f : 0.0f);
  }
  request.prompt = fixed.empty() ? static_cast<int64_t>(canvas.size()) : 0;
}

int64_t Decoder::add(std::span<const int32_t> canvas, std::span<const uint8_t> fixed,
                     const Options& options, const OwnSettings& own) {
  const int64_t number = add_request(canvas, fixed, options, own);
  warn_of_equal(entry(number), options);
  publish({&entry(number)});
  return number;
}

namespace {

// Fails if a policy over arrays cannot keep the settings of a request.
void check_array_request(const Request& request, const Options& decoding) {
  if (request.settings.constraint == nullptr && request.random_source == nullptr) return;
  fail_with_hint("choose another policy for this request", Code::unimplemented,
                 "policy {} decodes arrays, which take {}", decoding.str("policy"),
                 request.random_source != nullptr ? "random numbers by seed only"
                                                  : "no constraint of tokens");
}

} // namespace

// Sets the sampling settings from the options of the request. Options that are not set there are
// taken from `decoding`.
void Decoder::set_sampling(const Options& decoding, const Options& options,
                           RequestSettings& settings) {
  const auto pick = [&](const char* key) {
    return options.f64(key) < 0 ? decoding.f64(key) : options.f64(key);
  };
  settings.seed = static_cast<uint64_t>(options.i64("seed"));
  settings.temperature = temperature_of(pick("temperature"));
  settings.top_p = static_cast<float>(pick("top_p"));
  const int64_t top_k = options.i64("top_k");
  settings.top_k = static_cast<int32_t>(top_k < 0 ? decoding.i64("top_k") : top_k);
}

int64_t Decoder::add_request(std::span<const int32_t> canvas, std::span<const uint8_t> fixed,
                             const Options& options, const OwnSettings& own) {
  const model::ModelConfig& config = model_->config();
  if (std::ssize(requests_) >= this->options().i64("slots")) {
    fail_with_hint("remove finished requests, or raise option slots", Code::resource_exhausted,
                   "all {} slots are in use", requests_.size());
  }
  if (!fixed.empty() && fixed.size() != canvas.size()) {
    fail(Code::invalid_argument, "fixed has {} entries, the canvas has {}", fixed.size(),
         canvas.size());
  }
  Entry made(method_of(options, own), state_);
  const Options& decoding = made.method->options();
  int64_t open_behind = 0;
  if (fixed.empty()) {
    const int64_t asked = options.i64("gen_length"); // -1: the decoder's
    open_behind = asked < 0 ? decoding.i64("gen_length") : asked;
  }
  const int64_t length = static_cast<int64_t>(canvas.size()) + open_behind;
  if (length == 0) fail(Code::invalid_argument, "the canvas is empty");
  const int64_t most = most_positions(config, decoding);
  if (length > most) {
    fail_with_hint("shorten the prompt or gen_length", Code::out_of_range,
                   "the canvas has {} positions, the model allows at most {}", length, most);
  }
  Request& request = made.request;
  open_canvas(made, canvas, fixed, length);
  const int64_t given = options.i64("prompt_length");
  if (given > length || (given > 0 && request.open_count(0, given) > 0)) {
    fail_with_hint("count the given positions at the front of the canvas", Code::invalid_argument,
                   "prompt_length {} reaches beyond the given positions at the front", given);
  }
  if (given >= 0) request.prompt = given;
  request.random_source = random_source_.get();
  set_sampling(decoding, options, request.settings);
  for (const std::string& text : options.list("stop"))
    request.settings.stop.push_back(parse_id(text, config.vocab_size, "option stop"));
  request.settings.constraint = own.constraint;
  if (made.method->arrays() != nullptr) check_array_request(request, decoding);
  while (requests_.count(request.number) != 0) ++request.number;
  made.shown_ids = request.ids;
  made.shown_states = request.states;
  request.span = attention_span_of(config, decoding);
  made.session = made.method->policy().begin(request);
  if (this->options().boolean("trace")) {
    made.trace = std::make_shared<TraceLog>(this->options().i64("trace_bytes"));
    made.trace->add(request, {});
  }
  const int64_t number = request.number;
  requests_.emplace(number, std::move(made));
  return number;
}

// Warns once if two slots would draw the same numbers, because neither has a seed of its own.
void Decoder::warn_of_equal(const Entry& added, const Options& options) {
  const Request& request = added.request;
  const bool draws = request.settings.temperature > 0 && request.random_source == nullptr;
  if (!draws || options.is_set("seed") || warned_of_equal_) return;
  for (const auto& [number, other] : requests_) {
    const RequestSettings& settings = other.request.settings;
    const bool equal = number != request.number && other.method == added.method &&
                       other.shown_ids == request.ids && other.request.steps == 0 &&
                       settings.seed == request.settings.seed &&
                       settings.temperature == request.settings.temperature &&
                       settings.top_k == request.settings.top_k &&
                       settings.top_p == request.settings.top_p;
    if (!equal) continue;
    warned_of_equal_ = true;
    log(LogLevel::warn,
        "slots {} and {} have the same canvas and the same seed {}, so they get the same answer: "
        "give each slot its own seed",
        number, request.number, request.settings.seed);
    return;
  }
}

void Decoder::remove(int64_t number) {
  entry(number); // fails if there is no such slot
  if (sliced_requests_.contains(number)) drop_suspended();
  requests_.erase(number);
  published_.remove(number, totals());
}

Weights Decoder::take_weights(const Task* task) {
  Weights weights = weights_of(*model_, task);
  if (weights.version == version_) return weights;
  if (options().str("on_change") == "fail") {
    fail_with_hint("make a new decoder, or set on_change to continue", Code::failed_precondition,
                   "the model's weights changed from version {} to {}", version_, weights.version);
  }
  state_.lose();
  for (auto& [number, entry] : requests_) entry.predicted = false; // the old weights predicted
  version_ = weights.version;
  return weights;
}

RequestCopyRef Decoder::copy_of(const Entry& entry) const {
  const Request& request = entry.request;
  auto copy = std::make_shared<RequestCopy>();
  copy->number = request.number;
  copy->ids = request.ids;
  copy->states = request.states;
  copy->confidence = request.confidence;
  copy->finish = request.finish;
  copy->failure = entry.failure;
  copy->open = request.open_count(0, request.length());
  copy->steps = request.steps;
  copy->evaluations = request.evaluations;
  copy->nfe = entry.session->nfe(request);
  copy->prefills = request.prefills;
  copy->commits = request.commits;
  copy->launches = request.launches;
  copy->round_trips = request.round_trips;
  copy->decided = request.decided;
  if (entry.predicted)
    copy->predictions = std::make_shared<const std::vector<Prediction>>(entry.predictions);
  copy->trace = entry.trace;
  copy->trace_lines = entry.trace ? entry.trace->lines() : 0;
  return copy;
}

DecoderTotals Decoder::totals() const {
  return {launches_,
          round_trips_,
          state_.bytes(),
          state_.rows(),
          state_.capacity(),
          state_.reused(),
          program_.computed() + loop_computed_};
}

void Decoder::publish(const std::vector<Entry*>& changed, bool drop_others) {
  Published::Slots copies;
  for (const Entry* entry : changed) copies[entry->request.number] = copy_of(*entry);
  published_.put(std::move(copies), totals(), drop_others);
}

int64_t Decoder::active_count() const {
  return std::count_if(requests_.begin(), requests_.end(),
                       [](const auto& entry) { return entry.second.request.active(); });
}

Decoder::Entry& Decoder::entry(int64_t number) {
  const auto found = requests_.find(number);
  if (found == requests_.end()) fail(Code::not_found, "there is no slot {}", number);
  return found->second;
}

const Decoder::Entry& Decoder::entry(int64_t number) const {
  return const_cast<Decoder*>(this)->entry(number);
}

const Request& Decoder::request(int64_t number) const {
  return entry(number).request;
}

namespace {

// Warns if a request ended with open positions. A plan may be over before the model has predicted a
// token for every position.
void warn_of_masks(const Request& request) {
  const int64_t open = request.open_count(0, request.length());
  if (open == 0) return;
  log(LogLevel::warn,
      "slot {}: {} positions stay masked, because the model predicted the mask token: set "
      "suppress_mask to true, or take more steps",
      request.number, open);
}

} // namespace

// Ends the step of a request: updates its counters and applies its stop tokens.
Decoder::Change Decoder::finish(Entry& entry, Outcome outcome) {
  Request& request = entry.request;
  const bool ran = entry.pass.end > entry.pass.begin;
  ++request.steps;
  request.evaluations += ran ? 1 : 0;
  entry.predicted = false;
  entry.planned.reset();
  entry.predictions.clear();
  entry.vetoes.reset();
  apply_stop(request, outcome);
  request.decided += static_cast<int64_t>(outcome.decided.size());
  if (entry.trace) entry.trace->add(request, outcome.decided);
  if (!request.active()) {
    entry.cache_row.release();
    warn_of_masks(request);
  }
  return {request.number, std::move(outcome)};
}

// Ends the request if a stop token is decided and no position before it is open. All later open
// positions become that token.
void Decoder::apply_stop(Request& request, Outcome& outcome) {
  const auto is_stop = [&](int32_t id) {
    const auto& stop = request.settings.stop;
    return std::find(stop.begin(), stop.end(), id) != stop.end();
  };
  if (request.settings.stop.empty()) return;
  for (int64_t p = request.origin; p < request.length() && !request.is_open(p); ++p) {
    const auto at = static_cast<size_t>(p);
    if (request.states[at] != State::final || !is_stop(request.ids[at])) continue;
    for (int64_t rest = p + 1; rest < request.length(); ++rest) {
      if (!request.is_open(rest)) continue;
      request.decide(rest, request.ids[at], request.confidence[at]);
      outcome.decided.push_back(rest);
    }
    request.finish = Finish::stopped;
    return;
  }
}

} // namespace dllm::decode
