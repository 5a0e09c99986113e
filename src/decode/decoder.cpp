#include "decode/decoder.h"

#include "base/error.h"
#include "decode/trace.h"

#include <algorithm>
#include <charconv>

namespace dllm::decode {
namespace {

int32_t parse_id(const std::string& text, int64_t vocab, const char* what) {
  int32_t id = -1;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), id);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || id < 0 || id >= vocab) {
    fail(Code::invalid_argument, "{} holds \"{}\", which is no token id below {}", what, text, vocab);
  }
  return id;
}

int32_t need_mask_id(const model::Model& model) {
  if (model.config().mask_token_id >= 0) return static_cast<int32_t>(model.config().mask_token_id);
  fail_with_hint(
      "set option mask_token of the model (a token's text or id), or \"dllm\": {\"mask_token_id\"} in its config.json, or "
      "train it with a masked objective",
      Code::failed_precondition, "the model has no mask token");
}

StepSettings step_settings(const model::Model& model, const Options& options) {
  StepSettings settings;
  const model::ModelConfig& config = model.config();
  settings.attention = model::attention_from_name(options.str("attention"));
  if (settings.attention == model::AttentionKind::automatic) settings.attention = config.attention;
  settings.attention_block = config.block_length > 0 ? config.block_length : options.i64("block_length");
  if (settings.attention == model::AttentionKind::block_causal && settings.attention_block <= 0) {
    fail_with_hint("set block_length", Code::invalid_argument, "block_causal attention needs a block length");
  }
  settings.shift = options.i64("shift") < 0 ? config.shift : static_cast<int>(options.i64("shift"));
  // A masked position is never decided to be masked.
  settings.banned.assign(static_cast<size_t>(config.vocab_size), 0);
  for (const std::string& text : options.list("suppress")) {
    settings.banned[static_cast<size_t>(parse_id(text, config.vocab_size, "option suppress"))] = 1;
  }
  if (config.mask_token_id >= 0) settings.banned[static_cast<size_t>(config.mask_token_id)] = 1;
  return settings;
}

}  // namespace

Decoder::Decoder(std::shared_ptr<model::Model> model, const Options& options)
    : model_(std::move(model)),
      options_(options),
      policy_(make_policy(options.str("policy"))),
      schedule_(noise::make_schedule(options.str("schedule"))),
      mask_id_(need_mask_id(*model_)),
      program_(model_, step_settings(*model_, options)),
      version_(model_->version()) {}

Decoder::~Decoder() = default;

void Decoder::start(std::span<const int32_t> prompt, uint64_t seed) {
  Options settings(slot_schema());
  settings.set_i64("seed", static_cast<int64_t>(seed));
  std::map<int64_t, Slot> before = std::move(slots_);
  slots_.clear();
  try {
    add(prompt, {}, settings);
  } catch (...) {
    slots_ = std::move(before);
    throw;
  }
}

int64_t Decoder::add(std::span<const int32_t> canvas, std::span<const uint8_t> fixed, const Options& options) {
  const model::ModelConfig& config = model_->config();
  if (static_cast<int64_t>(slots_.size()) >= options_.i64("slots")) {
    fail_with_hint("remove finished requests, or raise option slots", Code::resource_exhausted,
                   "all {} slots are in use", slots_.size());
  }
  if (!fixed.empty() && fixed.size() != canvas.size()) {
    fail(Code::invalid_argument, "fixed has {} entries, the canvas {}", fixed.size(), canvas.size());
  }
  int64_t open_behind = 0;
  if (fixed.empty()) {
    open_behind = options.i64("gen_length") < 0 ? options_.i64("gen_length") : options.i64("gen_length");
  }
  const int64_t length = static_cast<int64_t>(canvas.size()) + open_behind;
  if (length == 0) fail(Code::invalid_argument, "the canvas is empty");
  if (length > config.max_positions) {
    fail_with_hint("shorten the prompt or gen_length", Code::out_of_range,
                   "the canvas has {} positions, the model allows {}", length, config.max_positions);
  }
  Slot slot;
  for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
    const bool given = i < canvas.size() && (fixed.empty() || fixed[i] != 0);
    if (given && (canvas[i] < 0 || canvas[i] >= config.vocab_size)) {
      fail(Code::invalid_argument, "token {} at position {} is not in 0 to {}", canvas[i], i, config.vocab_size - 1);
    }
    slot.ids.push_back(given ? canvas[i] : mask_id_);
    slot.states.push_back(given ? State::fixed : State::masked);
    slot.confidence.push_back(given ? 1.0f : 0.0f);
  }
  slot.settings.seed = static_cast<uint64_t>(options.i64("seed"));
  const auto pick = [&](const char* key) { return options.f64(key) < 0 ? options_.f64(key) : options.f64(key); };
  slot.settings.temperature = static_cast<float>(pick("temperature"));
  slot.settings.top_p = static_cast<float>(pick("top_p"));
  slot.settings.top_k = static_cast<int32_t>(options.i64("top_k") < 0 ? options_.i64("top_k") : options.i64("top_k"));
  for (const std::string& text : options.list("stop")) {
    slot.settings.stop.push_back(parse_id(text, config.vocab_size, "option stop"));
  }
  // Blocks follow the prompt; in a canvas with holes they are windows from its beginning.
  slot.origin = fixed.empty() ? static_cast<int64_t>(canvas.size()) : 0;
  const int64_t span = std::max<int64_t>(length - slot.origin, 1);
  slot.block_length = options_.i64("block_length") > 0 ? options_.i64("block_length") : span;
  const int64_t blocks = std::max<int64_t>(slot.block_count(), 1);
  slot.steps_per_block = (options_.i64("steps") + blocks - 1) / blocks;
  while (slots_.count(slot.number) != 0) ++slot.number;
  finish_block(slot);
  if (options_.boolean("trace")) slot.trace = trace_line(slot, {});
  const int64_t number = slot.number;
  slots_.emplace(number, std::move(slot));
  return number;
}

void Decoder::remove(int64_t number) {
  slot(number);
  slots_.erase(number);
}

// Moves to the first block with open positions and plans it; a slot without any is done.
void Decoder::finish_block(Slot& slot) {
  while (slot.block < slot.block_count() && slot.open_count(slot.block_begin(), slot.block_end()) == 0) ++slot.block;
  slot.step_in_block = 0;
  if (slot.block >= slot.block_count()) {
    slot.finish = Finish::decided;
    return;
  }
  slot.transfer = policy_->plan(slot, *schedule_, slot.open_count(slot.block_begin(), slot.block_end()));
}

void Decoder::check_weights() {
  const int64_t now = model_->version();
  if (now != version_ && options_.str("on_change") == "fail") {
    fail_with_hint("make a new decoder, or set on_change to continue", Code::failed_precondition,
                   "the model's weights changed from version {} to {}", version_, now);
  }
  version_ = now;
}

int64_t Decoder::active_count() const {
  return std::count_if(slots_.begin(), slots_.end(), [](const auto& entry) { return entry.second.active(); });
}

// Most positions any step of the present requests can ask for.
int64_t Decoder::capacity() const {
  int64_t most = 0;
  for (const auto& [number, slot] : slots_) {
    if (slot.active()) most += std::min(slot.block_length, slot.length() - slot.origin);
  }
  return most;
}

std::vector<Decoder::Change> Decoder::advance(const Task* task) {
  if (slots_.empty()) {
    fail_with_hint("call start or add first", Code::failed_precondition, "the decoder holds no request");
  }
  check_weights();
  std::vector<Slot*> active;
  std::vector<const Slot*> rows;
  std::vector<Query> queries;
  std::vector<size_t> query_end;
  for (auto& [number, slot] : slots_) {
    if (!slot.active()) continue;
    std::vector<int64_t> open;
    for (int64_t p = slot.block_begin(); p < slot.block_end(); ++p) {
      if (slot.states[static_cast<size_t>(p)] == State::masked) open.push_back(p);
    }
    const std::vector<int64_t> wanted = policy_->wanted({slot, *schedule_, open});
    active.push_back(&slot);
    if (!wanted.empty()) {
      for (int64_t position : wanted) queries.push_back({&slot, static_cast<int64_t>(rows.size()), position});
      rows.push_back(&slot);
    }
    query_end.push_back(queries.size());
  }
  std::vector<Prediction> predictions;
  if (!queries.empty()) predictions = program_.run(rows, queries, capacity(), task);
  else check_task(task);

  std::vector<Change> changes;
  size_t begin = 0;
  for (size_t i = 0; i < active.size(); ++i) {
    changes.push_back(commit(*active[i], std::span(predictions).subspan(begin, query_end[i] - begin)));
    begin = query_end[i];
  }
  return changes;
}

// Writes what the policy chose and moves the slot on.
Decoder::Change Decoder::commit(Slot& slot, std::span<const Prediction> predictions) {
  Change change{slot.number, {}, false, slot.block, slot.block_begin(), slot.block_end()};
  for (size_t index : policy_->choose({slot, *schedule_, {}}, predictions)) {
    const Prediction& chosen = predictions[index];
    const auto at = static_cast<size_t>(chosen.position);
    slot.ids[at] = chosen.token;
    slot.states[at] = State::final;
    slot.confidence[at] = chosen.probability;
    change.decided.push_back(chosen.position);
  }
  std::sort(change.decided.begin(), change.decided.end());
  ++slot.steps;
  ++slot.step_in_block;
  slot.evaluations += predictions.empty() ? 0 : 1;
  slot.commits += static_cast<int64_t>(change.decided.size());
  apply_stop(slot, change);
  change.block_ended = slot.open_count(change.begin, change.end) == 0;
  if (slot.active() && change.block_ended) finish_block(slot);
  if (options_.boolean("trace")) slot.trace += trace_line(slot, change.decided);
  return change;
}

// A stop token with nothing open before it ends the request: what is open behind it becomes that token.
void Decoder::apply_stop(Slot& slot, Change& change) {
  const auto is_stop = [&](int32_t id) {
    const auto& stop = slot.settings.stop;
    return std::find(stop.begin(), stop.end(), id) != stop.end();
  };
  for (int64_t p = slot.origin; p < slot.length() && slot.states[static_cast<size_t>(p)] != State::masked; ++p) {
    const auto at = static_cast<size_t>(p);
    if (slot.states[at] != State::final || !is_stop(slot.ids[at])) continue;
    for (int64_t rest = p + 1; rest < slot.length(); ++rest) {
      const auto r = static_cast<size_t>(rest);
      if (slot.states[r] != State::masked) continue;
      slot.ids[r] = slot.ids[at];
      slot.states[r] = State::final;
      slot.confidence[r] = slot.confidence[at];
      change.decided.push_back(rest);
    }
    slot.finish = Finish::stopped;
    return;
  }
}

int64_t Decoder::step(const Task* task) {
  advance(task);
  return active_count();
}

}  // namespace dllm::decode
