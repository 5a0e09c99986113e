#include "decode/method/setup.h"

#include "base/error.h"
#include "base/number.h"
#include "decode/cache/decode_state.h"
#include "decode/loop/loop_program.h"
#include "decode/pass/pass.h"
#include "decode/pass/pass_program.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>

namespace dllm::decode {

int32_t mask_id_of(const model::Model& model, const Policy& policy) {
  if (model.config().mask_token_id >= 0) return static_cast<int32_t>(model.config().mask_token_id);
  if (!policy.needs().mask) return 0;
  fail_with_hint(
      "set option mask_token of the model (a token's text or id), or \"dllm\": "
      "{\"mask_token_id\"} in its config.json, or train it with a masked objective; a causal "
      "model decodes with policy autoregressive",
      Code::failed_precondition, "the model has no mask token");
}

namespace {

Json set_values(const Options& options) {
  const Json values = options.to_json();
  Json set = Json::object();
  for (const OptionSpec& spec : options.schema().specs()) {
    if (options.is_set(spec.key)) set[spec.key] = values.at(spec.key);
  }
  return set;
}

} // namespace

Options policy_options(const Options& given) {
  Options own(decoder_schema(given.str("policy")));
  own.take_set(given);
  return own;
}

std::string text_of(const Options& options) {
  return options.schema().kind() + set_values(options).dump();
}

Options request_options(const Options& given, const Options& of_request) {
  Options own = policy_options(given);
  const Json values = of_request.to_json(), none = Options(of_request.schema()).to_json();
  for (const auto& [option, how] : request_settings()) {
    const std::string& key = option.key;
    if (values.at(key) == none.at(key)) continue;
    Json value = values.at(key);
    if (how == PerRequest::adds) {
      Json all = own.to_json().at(key);
      all.insert(all.end(), value.begin(), value.end());
      value = std::move(all);
    }
    own.set_json({{key, std::move(value)}});
  }
  return own;
}

namespace {

// Returns the schedule of option schedule_alphas.
noise::ScheduleRef own_schedule(const Options& options) {
  if (options.f64("schedule_eps") >= 0 || options.i64("schedule_steps") != 0) {
    fail_with_hint("leave schedule_eps and schedule_steps out", Code::invalid_argument,
                   "schedule_alphas has no eps and no discrete times");
  }
  const Json list = parse_json_option(options.str("schedule_alphas"), "schedule_alphas");
  const auto is_number = [](const Json& value) { return value.is_number(); };
  if (!list.is_array() || list.size() < 2 || !std::all_of(list.begin(), list.end(), is_number)) {
    fail_with_hint("write alpha(t) from t = 0 to 1, such as [1, 0.3, 0]", Code::invalid_argument,
                   "option schedule_alphas takes a list of two numbers or more");
  }
  const auto alphas = list.get<std::vector<double>>();
  if (alphas.front() <= alphas.back()) {
    fail_with_hint("alpha(t) is the part that stays at time t: 1 at t = 0, 0 at t = 1",
                   Code::invalid_argument, "option schedule_alphas must fall, from {} to {}",
                   alphas.front(), alphas.back());
  }
  std::vector<double> times(alphas.size());
  for (size_t i = 0; i < times.size(); ++i)
    times[i] = static_cast<double>(i) / static_cast<double>(times.size() - 1);
  return noise::table_schedule(times, alphas, {}, {});
}

} // namespace

noise::ScheduleRef schedule_of(const Options& options, const model::ModelConfig& config) {
  if (!options.str("schedule_alphas").empty()) return own_schedule(options);
  const std::string& name = options.str("schedule");
  if (name == kTrainedSchedule) {
    return config.schedule.empty()
               ? noise::make_schedule("tangent")
               : noise::schedule_from_json(parse_json(config.schedule, "config.json"));
  }
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

AttentionSpan attention_span_of(const model::ModelConfig& config, const Options& options) {
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

void check_length(const model::ModelConfig& config, const Options& options, int64_t length) {
  const int64_t most = most_positions(config, options);
  if (length <= most) return;
  fail_with_hint(
      "shorten the prompt, or take fewer open positions: gen_length, length of a request",
      Code::out_of_range, "the canvas has {} positions, the model allows at most {}", length, most);
}

namespace {

// Returns the facts about the tokens; null if the model's files have no vocabulary or any id may be
// drawn.
std::shared_ptr<const text::TokenFacts> known_tokens(const model::Model& model,
                                                     const Options& options) {
  if (!options.boolean("suppress_unused")) return nullptr;
  auto tokens = model.token_facts();
  return tokens->known ? tokens : nullptr;
}

int shift_of(const model::ModelConfig& config, const Options& options) {
  const int64_t shift = options.i64("shift");
  return shift < 0 ? config.shift : static_cast<int>(shift);
}

} // namespace

PolicySetup policy_setup(const model::Model& model, const Options& options,
                         const noise::Schedule& schedule) {
  const auto mask_id = static_cast<int32_t>(model.config().mask_token_id);
  return {options,
          schedule,
          model.config(),
          mask_id,
          attention_span_of(model.config(), options),
          shift_of(model.config(), options),
          known_tokens(model, options),
          &model.parts()};
}

std::vector<uint8_t> banned_tokens(const model::Model& model, const Options& options) {
  const model::ModelConfig& config = model.config();
  std::vector<uint8_t> banned(static_cast<size_t>(config.vocab_size), 0);
  for (const std::string& text : options.list("suppress"))
    banned[static_cast<size_t>(parse_id(text, config.vocab_size, "option suppress"))] = 1;
  if (options.boolean("suppress_mask") && config.mask_token_id >= 0)
    banned[static_cast<size_t>(config.mask_token_id)] = 1;
  if (const auto tokens = known_tokens(model, options)) {
    for (int64_t id = 0; id < config.vocab_size; ++id) {
      if (id != config.mask_token_id && !tokens->has(id)) banned[static_cast<size_t>(id)] = 1;
    }
  }
  return banned;
}

namespace {

// Returns (vocab): what option logit_bias adds to logits; empty: nothing.
std::vector<float> logit_bias(const model::ModelConfig& config, const Options& options) {
  constexpr double kMost = 100;
  std::vector<float> bias;
  for (const std::string& text : options.list("logit_bias")) {
    const size_t end = text.find('=');
    const std::optional<double> value =
        end == std::string::npos ? std::nullopt : parse_number(text.substr(end + 1));
    if (!value || !(std::abs(*value) <= kMost)) {
      fail_with_hint(
          "write ID=VALUE, such as 42=-1.5", Code::invalid_argument,
          "option logit_bias has \"{}\", expected a token id and a number from -{} to {}", text,
          kMost, kMost);
    }
    const auto id =
        static_cast<size_t>(parse_id(text.substr(0, end), config.vocab_size, "option logit_bias"));
    bias.resize(static_cast<size_t>(config.vocab_size));
    bias[id] = static_cast<float>(*value);
  }
  const bool is_capped = std::ranges::any_of(
      model::model_heads(config), [](const model::HeadConfig& head) { return head.softcap != 0; });
  if (!bias.empty() && is_capped) {
    fail_with_hint("ban tokens with option suppress", Code::unimplemented,
                   "the logits of this model are capped (softcap), and option logit_bias would be "
                   "added before the cap");
  }
  return bias;
}

} // namespace

PassSettings pass_settings(const model::Model& model, const Options& options,
                           const Policy& policy) {
  PassSettings settings;
  const model::ModelConfig& config = model.config();
  settings.needs = policy.needs();
  settings.needs.top = std::min(settings.needs.top, config.vocab_size);
  settings.needs.kept = std::min(options.i64("top_logprobs"), config.vocab_size);
  settings.logit_bias = logit_bias(config, options);
  // The heads of edits read the hidden state of the position itself.
  settings.shift = settings.needs.edits ? 0 : shift_of(config, options);
  settings.banned = banned_tokens(model, options);
  const std::vector<std::string> deferred = options.list("defer");
  if (!deferred.empty()) settings.deferred.assign(settings.banned.size(), 0);
  for (const std::string& text : deferred)
    settings.deferred[static_cast<size_t>(parse_id(text, config.vocab_size, "option defer"))] = 1;
  return settings;
}

namespace {

// The rows of a planned pass. All have the same window at the end of their canvas.
struct Planned {
  Request request;
  PassRequest pass;
  std::vector<PassRow> rows;
};

Planned plan_rows(const model::ModelConfig& config, const Options& options, const Policy& policy) {
  const bool prefill = options.str("what") == "prefill";
  const int64_t length = model::planned_length(config, options);
  const int64_t asked = prefill ? length : options.i64("window");
  const int64_t window = asked > 0 ? std::min(asked, length) : length;
  Planned made;
  made.request.ids.resize(static_cast<size_t>(length));
  PassRequest& pass = made.pass;
  pass.begin = length - window;
  pass.end = length;
  pass.cached = asked > 0;
  if (!prefill) {
    pass.positions.resize(static_cast<size_t>(window));
    std::iota(pass.positions.begin(), pass.positions.end(), pass.begin);
    if (policy.needs().soft_width > 0) pass.soft.resize(1);
  }
  return made;
}

// Returns the graph form of the policy's rule if the decoder would use it, else null.
std::unique_ptr<LoopRule> planned_loop(const graph::Engine& engine, const Options& options,
                                       const Policy& policy) {
  const std::string& wanted = options.str("loop");
  const bool possible = wanted == "device" || (wanted == "auto" && engine.runs_ahead());
  if (!possible || options.str("what") != "decode") return nullptr;
  LoopOffer offer = policy.loop();
  if (offer.rule == nullptr && wanted == "device")
    fail_with_hint("set loop to auto or host", Code::unimplemented,
                   "policy {} cannot run as a loop on the device: {}", options.str("policy"),
                   offer.why_not);
  return std::move(offer.rule);
}

} // namespace

model::Job decoding_job(const std::shared_ptr<graph::Engine>& engine,
                        const model::ModelConfig& config, const Options& options,
                        const model::FormOf& in_files) {
  const auto model = model::planned_model(engine, config, options, in_files);
  Options settings(decoder_schema(options.str("policy")));
  const noise::ScheduleRef schedule = schedule_of(settings, config);
  const auto policy = make_policy(options.str("policy"), policy_setup(*model, settings, *schedule));
  Planned planned = plan_rows(config, options, *policy);
  planned.request.span = attention_span_of(config, settings);
  const int64_t batch = options.i64("batch");
  planned.rows.assign(static_cast<size_t>(batch), {&planned.request, &planned.pass, 0});

  // The part of one rank, as in DecodeState and PassShares.
  const graph::Mesh& mesh = engine->mesh();
  const int64_t shares = mesh.size(model::request_axes(mesh)), own = (batch + shares - 1) / shares;
  const std::vector<model::StateStack> stacks = model::state_stacks(config);
  CacheShape kept{static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(own))),
                  row_capacity(planned.request.length())};
  if (model::has_saved(stacks)) kept.saved_rows = kept.rows;
  const auto loop = planned_loop(*engine, options, *policy);
  PassShape shape = pass_shape(config, planned.rows, kept, 0,
                               loop != nullptr ? Rounding{} : rounding_of(*model), own);
  model::Job job;
  model::count_parameters(*model, job);
  if (planned.pass.cached) {
    for (const model::StateStack& stack : stacks) { // the part of one rank
      const graph::ValueType part = stack.type({kept.rows, kept.capacity}, model->params());
      job.cache += part.shape.count() * dtype_size(part.dtype);
    }
  }
  const PassSettings step = pass_settings(*model, settings, *policy);
  const auto block = static_cast<int64_t>(planned.pass.positions.size());
  if (loop != nullptr) {
    job.graph = std::make_shared<graph::Graph>("denoise_loop");
    build_loop(*job.graph, *model, *loop, loop_shape(shape, step, block, block));
    return job;
  }
  if (block > 0 || !planned.pass.cached) shape.capacity = head_capacity(own * block);
  job.graph = std::make_shared<graph::Graph>("denoise");
  shape.set(step);
  build_pass(*job.graph, *model, shape);
  return job;
}

} // namespace dllm::decode
