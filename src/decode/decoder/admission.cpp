#include "decode/decoder/admission.h"

#include "base/error.h"
#include "base/log.h"
#include "decode/method/setup.h"
#include "model/adapters/adapter.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dllm::decode {
namespace {

// The largest logit divided by a smaller temperature may be infinite.
constexpr double kLeastTemperature = 1e-6;
// Methods that stay without a request, so that a later request finds their state in the cache.
constexpr size_t kRecentMethods = 16;
constexpr const char* kDrawnByCaller = "random numbers come from a source of the caller";

float temperature_of(double asked) {
  if (asked > 0 && asked < kLeastTemperature) {
    fail_with_hint("0 takes the likeliest token", Code::invalid_argument,
                   "temperature {} is below {}", asked, kLeastTemperature);
  }
  return static_cast<float>(asked);
}

// Appends `length` positions to the canvas of a request. Positions beyond `canvas` are open.
void append_positions(Request& request, std::span<const int32_t> canvas,
                      std::span<const uint8_t> fixed, int64_t length, int64_t vocab,
                      int32_t mask_id) {
  for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
    const bool given = i < canvas.size() && (fixed.empty() || fixed[i] != 0);
    if (given && (canvas[i] < 0 || canvas[i] >= vocab)) {
      fail(Code::invalid_argument, "token {} at position {} is not in 0 to {}", canvas[i], i,
           vocab - 1);
    }
    request.ids.push_back(given ? canvas[i] : mask_id);
    request.states.push_back(given ? State::fixed : State::masked);
    request.confidence.push_back(given ? 1.0f : 0.0f);
  }
}

// Fails if a policy over arrays cannot keep the settings of a request.
void check_array_request(const Request& request, const Options& decoding) {
  if (request.settings.constraint == nullptr && request.random_source == nullptr) return;
  fail_with_hint("choose another policy for this request", Code::unimplemented,
                 "policy {} decodes arrays, which take {}", decoding.str("policy"),
                 request.random_source != nullptr ? "random numbers by seed only"
                                                  : "no constraint of tokens");
}

} // namespace

Admission::Admission(std::shared_ptr<model::Model> model, const Options& options, PolicyMaker make,
                     SlotList& slots, DecodeState& state)
    : model_(std::move(model)), make_(std::move(make)), slots_(slots), state_(state),
      table_(model_, options), method_(std::make_shared<Method>(model_, policy_options(options), 0,
                                                                make_, load_parts(options))) {}

void Admission::set_random_source(std::shared_ptr<const RandomSource> random_source) {
  random_source_ = std::move(random_source);
  method_->stop_loop(kDrawnByCaller);
}

// Returns the decoding options of a request.
Options Admission::wanted_options(const Options& options, const OwnSettings& own) const {
  return request_options(own.decoding ? *own.decoding : method_->options(), options);
}

bool Admission::loads(const Options& options, const OwnSettings& own) const {
  if (table_.is_empty()) return false;
  return table_.needs_load(model::read_adapter_uses(wanted_options(options, own).list("adapters")));
}

// Loads the adapters that the options name. Returns the parts of the model that passes read; not
// set: the base and all its adapters.
std::optional<model::PartList> Admission::load_parts(const Options& wanted) {
  const std::vector<std::string>& words = wanted.list("adapters");
  if (words.empty()) return table_.is_empty() ? std::nullopt : std::optional(table_.own());
  const std::vector<model::AdapterUse> choices = model::read_adapter_uses(words);
  std::set<std::string> in_use;
  for (const auto& [number, slot] : slots_.all()) {
    const bool may_step = slot.is_active() || slot.failure() != nullptr;
    if (!may_step || !slot.method()->parts()) continue;
    for (const std::string& part : slot.method()->parts()->names())
      in_use.insert(model::adapter_name(part));
  }
  table_.load(choices, in_use);
  return model::parts_of(*model_, choices);
}

std::shared_ptr<Method> Admission::find_method(const std::string& text, bool is_named) const {
  const auto is_same = [&](const Method& method) {
    return method.text() == text && method.is_named() == is_named;
  };
  if (is_same(*method_)) return method_;
  for (const auto& [number, slot] : slots_.all()) {
    if (is_same(*slot.method())) return slot.method();
  }
  for (const std::shared_ptr<Method>& method : recent_) {
    if (is_same(*method)) return method;
  }
  return nullptr;
}

// Returns the method for a request. Requests with equal options share it.
std::shared_ptr<Method> Admission::method_of(const Options& options, const OwnSettings& own) {
  const Options wanted = wanted_options(options, own);
  const PolicyMaker make = own.decoding ? PolicyMaker() : make_;
  std::optional<model::PartList> parts = load_parts(wanted);
  std::shared_ptr<Method> method = find_method(text_of(wanted), !make);
  if (method == nullptr) {
    method = std::make_shared<Method>(model_, wanted, methods_++, make, std::move(parts));
    if (random_source_ != nullptr) method->stop_loop(kDrawnByCaller);
    for (const auto& [number, slot] : slots_.all()) method->share_passes(*slot.method());
    for (const std::shared_ptr<Method>& other : recent_) method->share_passes(*other);
    method->share_passes(*method_);
  }
  if (method != method_ && std::ranges::find(recent_, method) == recent_.end()) {
    recent_.push_back(method);
    if (recent_.size() > kRecentMethods) recent_.pop_front();
  }
  return method;
}

// Returns a request with the canvas and its prompt.
Request Admission::read_canvas(const Method& method, std::span<const int32_t> canvas,
                               std::span<const uint8_t> fixed, const Options& options) const {
  const Options& decoding = method.options();
  int64_t appended = 0;
  if (fixed.empty()) {
    const int64_t asked = options.i64("gen_length"); // -1: the decoder's
    appended = asked < 0 ? decoding.i64("gen_length") : asked;
  }
  const int64_t length = static_cast<int64_t>(canvas.size()) + appended;
  if (length == 0) fail(Code::invalid_argument, "the canvas is empty");
  check_length(model_->config(), decoding, length);
  Request request;
  append_positions(request, canvas, fixed, length, model_->config().vocab_size, method.mask_id());
  request.prompt = fixed.empty() ? static_cast<int64_t>(canvas.size()) : 0;
  const int64_t given = options.i64("prompt_length");
  if (given > length || (given > 0 && request.open_count(0, given) > 0)) {
    fail_with_hint("count the given positions at the front of the canvas", Code::invalid_argument,
                   "prompt_length {} reaches beyond the given positions at the front", given);
  }
  if (given >= 0) request.prompt = given;
  return request;
}

// Returns the sampling settings and stop tokens. Options that the request does not set are taken
// from `decoding`.
RequestSettings Admission::settings_of(const Options& decoding, const Options& options) const {
  const auto pick = [&](const char* key) {
    return options.f64(key) < 0 ? decoding.f64(key) : options.f64(key);
  };
  RequestSettings settings;
  settings.seed = static_cast<uint64_t>(options.i64("seed"));
  settings.temperature = temperature_of(pick("temperature"));
  for (size_t i = 0; i < settings.filters.size(); ++i) {
    const graph::DrawFilter& filter = graph::draw_filters()[i];
    const char* key = filter.name().c_str();
    const int64_t count = filter.counts_ids() ? options.i64(key) : 0;
    settings.filters[i] = filter.counts_ids()
                              ? static_cast<double>(count < 0 ? decoding.i64(key) : count)
                              : static_cast<double>(static_cast<float>(pick(key)));
  }
  for (const std::string& text : options.list("stop"))
    settings.stop.push_back(parse_id(text, model_->config().vocab_size, "option stop"));
  return settings;
}

Slot& Admission::add(std::span<const int32_t> canvas, std::span<const uint8_t> fixed,
                     const Options& options, const OwnSettings& own) {
  if (slots_.size() >= method_->options().i64("slots")) {
    fail_with_hint("remove finished requests, or raise option slots", Code::resource_exhausted,
                   "all {} slots are in use", slots_.size());
  }
  if (!fixed.empty() && fixed.size() != canvas.size()) {
    fail(Code::invalid_argument, "fixed has {} entries, the canvas has {}", fixed.size(),
         canvas.size());
  }
  const std::shared_ptr<Method> method = method_of(options, own);
  const Options& decoding = method->options();
  Request request = read_canvas(*method, canvas, fixed, options);
  request.random_source = random_source_.get();
  request.settings = settings_of(decoding, options);
  request.settings.constraint = own.constraint;
  if (method->arrays() != nullptr) check_array_request(request, decoding);
  request.number = slots_.free_number();
  request.span = attention_span_of(model_->config(), decoding);
  Slot slot(method, std::move(request), state_);
  if (method_->options().boolean("trace")) slot.begin_trace(method_->options().i64("trace_bytes"));
  Slot& added = slots_.add(std::move(slot));
  warn_of_equal(added, options);
  return added;
}

// Warns once if two slots would draw the same numbers, because neither has a seed of its own.
void Admission::warn_of_equal(const Slot& added, const Options& options) {
  const Request& request = added.request();
  const bool draws = request.settings.temperature > 0 && request.random_source == nullptr;
  if (!draws || options.is_set("seed") || warned_of_equal_) return;
  for (const auto& [number, other] : slots_.all()) {
    const RequestSettings& settings = other.request().settings;
    const bool equal = number != request.number && other.method() == added.method() &&
                       other.request().steps == 0 && other.request().ids == request.ids &&
                       settings.seed == request.settings.seed &&
                       settings.temperature == request.settings.temperature &&
                       settings.filters == request.settings.filters;
    if (!equal) continue;
    warned_of_equal_ = true;
    log(LogLevel::warn,
        "slots {} and {} have the same canvas and the same seed {}, so they get the same answer: "
        "give each slot its own seed",
        number, request.number, request.settings.seed);
    return;
  }
}

} // namespace dllm::decode
