// The passes of a step. Requests run together if their shapes allow it.

#include "base/error.h"
#include "decode/decoder/decoder.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace dllm::decode {
namespace {

// Limit of passes before a step. It ends a policy that only fills caches and never decides.
constexpr int kMostPasses = 64;

} // namespace

void Decoder::need_request() const {
  if (requests_.empty()) {
    fail_with_hint("call start or add first", Code::failed_precondition,
                   "the decoder holds no request");
  }
}

std::vector<Decoder::Entry*> Decoder::active_requests() {
  std::vector<Entry*> active;
  for (auto& [number, entry] : requests_) {
    if (entry.request.active()) active.push_back(&entry);
  }
  return active;
}

// Runs one pass for every request with a window. Requests with equal keys and similar windows share
// a program.
void Decoder::run_passes(const std::vector<Entry*>& requests, const Weights& weights,
                         const Task* task, int64_t least_rows) {
  check_task(task);
  std::map<PassKey, std::vector<Entry*>> alike;
  for (Entry* entry : requests) {
    if (entry->pass.end > entry->pass.begin)
      alike[PassKey(entry->pass, entry->method->passes())].push_back(entry);
  }
  for (const auto& [key, owners] : alike) {
    std::vector<PassRow> rows;
    int64_t positions = 0;
    for (const Entry* entry : owners) {
      rows.push_back({&entry->request, &entry->pass, entry->cache_row.number()});
      positions += std::ssize(entry->pass.positions);
    }
    capacity_ = std::max(capacity_, positions);
    for (const std::vector<size_t>& group : window_groups(rows, program_.rounding())) {
      std::vector<PassRow> own_rows;
      std::vector<Entry*> own_requests;
      for (const size_t i : group) own_rows.push_back(rows[i]), own_requests.push_back(owners[i]);
      run_pass_of(own_requests, own_rows, weights, task, least_rows);
    }
  }
}

// Runs one pass. If it fails because of what its rows need, all of its requests fail.
void Decoder::run_pass_of(const std::vector<Entry*>& owners, std::span<const PassRow> rows,
                          const Weights& weights, const Task* task, int64_t least_rows) {
  std::vector<RowAnswer> answers;
  try {
    answers = program_.run(rows, owners[0]->method->passes(), state_, weights, capacity_, task,
                           least_rows);
  } catch (const Error& error) {
    if (!is_of_request(error)) throw;
    for (Entry* owner : owners) fail_request(*owner, error);
    return;
  }
  const bool waited = std::any_of(rows.begin(), rows.end(),
                                  [](const PassRow& row) { return !row.pass->positions.empty(); });
  ++launches_;
  round_trips_ += waited ? 1 : 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    Entry& owner = *owners[i];
    ++owner.request.launches;
    owner.request.round_trips += waited ? 1 : 0;
    if (answers[i].failure != nullptr) {
      fail_request(owner, *answers[i].failure);
      continue;
    }
    owner.predictions = std::move(answers[i].predictions);
    owner.planned.reset(); // a cancelled step runs its passes again
    owner.cache_row.keep_final(owner.request, owner.pass);
  }
}

Weights Decoder::predict_all(const std::vector<Entry*>& requests, const Task* task) {
  Weights weights = take_weights(task);
  state_.recover();
  std::vector<Entry*> waiting;
  for (Entry* entry : requests) {
    if (!entry->predicted) waiting.push_back(entry);
  }
  for (int round = 0; !waiting.empty(); ++round) {
    // Requests that fill their caches go first, so that all steps share one pass.
    std::vector<Entry*> filling, stepping;
    for (Entry* entry : waiting) {
      const auto plan = [&] {
        if (round == kMostPasses)
          fail(Code::internal, "a request took {} passes without a step", kMostPasses);
        plan_pass(*entry);
      };
      if (!succeeds(*entry, plan)) continue;
      (entry->pass.kind == PassKind::step ? stepping : filling).push_back(entry);
    }
    const std::vector<Entry*>& now = filling.empty() ? stepping : filling;
    run_passes(now, weights, task);
    waiting = filling.empty() ? std::vector<Entry*>() : std::move(stepping);
    for (Entry* entry : now) {
      if (!entry->request.active()) continue;
      if (entry->pass.kind == PassKind::step) {
        entry->predicted = succeeds(*entry, [&] { constrain(*entry, weights, task); });
        continue;
      }
      succeeds(*entry, [&] { end_filling(*entry); });
      if (entry->request.active()) waiting.push_back(entry);
    }
  }
  return weights;
}

// Plans the next pass of a request. A planned pass stays until it ran, unless the cache changed.
void Decoder::plan_pass(Entry& entry) {
  const CacheView view = entry.cache_row.view(entry.request);
  if (entry.planned && (!entry.pass.cached || *entry.planned == view)) return;
  entry.planned.reset();
  entry.pass = entry.session->next_pass(entry.request, view);
  entry.cache_row.place(entry.request, entry.pass);
  entry.planned = view;
}

void Decoder::set_pass(Entry& entry, PassRequest pass) {
  entry.pass = std::move(pass);
  entry.planned.reset();
}

// Ends a pass that only wrote K and V.
void Decoder::end_filling(Entry& entry) {
  Request& request = entry.request;
  ++(entry.pass.kind == PassKind::prefill ? request.prefills : request.commits);
  entry.session->apply(request, entry.pass, {});
  entry.planned.reset();
}

// Takes a step and publishes the requests. Counters are published even if the step fails.
std::vector<Decoder::Change> Decoder::advance(int64_t limit, const Task* task) {
  const std::vector<Entry*> active = active_requests();
  try {
    std::vector<Change> changes = advance(active, limit, task);
    publish(active);
    return changes;
  } catch (...) {
    publish(active);
    throw;
  }
}

// Requests of both kinds take their step. Programs of arrays run first, because they change no
// canvas: so a cancel or a failure of the engine leaves every canvas as it was. The changes have
// the order of the requests.
std::vector<Decoder::Change> Decoder::advance(const std::vector<Entry*>& active, int64_t limit,
                                              const Task* task) {
  std::vector<Entry*> arrays, tokens;
  for (Entry* entry : active)
    (entry->method->arrays() != nullptr ? arrays : tokens).push_back(entry);
  launch_arrays(arrays, limit, task);
  std::vector<Change> changes;
  if (!tokens.empty()) changes = advance_tokens(tokens, limit, task);
  std::ranges::move(replay_arrays(arrays), std::back_inserter(changes));
  std::ranges::sort(changes, {}, &Change::request);
  return changes;
}

std::vector<Decoder::Change> Decoder::advance_tokens(const std::vector<Entry*>& active,
                                                     int64_t limit, const Task* task) {
  if (in_loop(active)) {
    if (!replay_) launch(active, limit, task);
    return replay();
  }
  replay_.reset(); // its record is outdated, because the canvas changes now
  const Weights weights = predict_all(active, task);
  std::vector<Change> changes;
  for (Entry* entry : active) {
    if (entry->failure != nullptr) continue;
    if (!entry->predicted) { // the request ended while its cache was filled
      changes.push_back(finish(*entry, {}));
      continue;
    }
    succeeds(*entry,
             [&] { changes.push_back(accept(*entry, constrained_step(*entry, weights, task))); });
  }
  return changes;
}

Decoder::Trial Decoder::try_step(const Entry& entry) {
  Trial trial{entry.request, entry.session->clone(), {}};
  trial.outcome = trial.session->apply(trial.request, entry.pass, entry.predictions);
  return trial;
}

Decoder::Change Decoder::accept(Entry& entry, Trial trial) {
  entry.request = std::move(trial.request);
  entry.session = std::move(trial.session);
  return finish(entry, std::move(trial.outcome));
}

int64_t Decoder::step(const Task* task) {
  need_request();
  try_again();
  if (!is_suspended()) drop_replays(); // a suspended step still needs its own
  if (is_suspended())
    advance_until(SlicedCall::Clock::time_point::max(), task);
  else
    advance(1, task);
  return report_failures();
}

void Decoder::predict(const Task* task) {
  drop_suspended();
  need_request();
  try_again();
  const std::vector<Entry*> active = active_requests();
  if (active.empty()) {
    fail_with_hint("add a request, or read the ids of the finished ones", Code::failed_precondition,
                   "no slot has open positions");
  }
  for (const Entry* entry : active) {
    if (entry->method->arrays() == nullptr) continue;
    fail_with_hint("call step or run", Code::unimplemented,
                   "slot {} decodes an array, so the host cannot decide its tokens",
                   entry->request.number);
  }
  try {
    predict_all(active, task);
  } catch (...) {
    publish(active);
    throw;
  }
  publish(active);
  report_failures();
}

namespace {

[[noreturn]] void fail_unpredicted(int64_t number) {
  fail_with_hint("call dllmx_decoder_predict first", Code::failed_precondition,
                 "slot {} has no predictions", number);
}

} // namespace

Batch Decoder::statistics(int64_t number) const {
  const RequestCopyRef held = copy(number);
  if (held->predictions == nullptr) fail_unpredicted(number);
  const std::vector<Prediction>& all = *held->predictions;
  const auto count = static_cast<int64_t>(all.size());
  const int64_t top = all.empty() ? 1 : static_cast<int64_t>(all[0].top_ids.size());
  const auto column = [&](auto value) {
    std::vector<decltype(value(all[0]))> made;
    for (const Prediction& p : all) made.push_back(value(p));
    return Tensor::from(Shape{count}, made);
  };
  Batch batch;
  batch.set("positions",
            column([](const Prediction& p) { return static_cast<int32_t>(p.position); }));
  batch.set("token", column([](const Prediction& p) { return p.token; }));
  batch.set("probability", column([](const Prediction& p) { return p.probability; }));
  batch.set("argmax", column([](const Prediction& p) { return p.argmax; }));
  batch.set("max_probability", column([](const Prediction& p) { return p.max_probability; }));
  batch.set("entropy", column([](const Prediction& p) { return p.entropy; }));
  std::vector<int32_t> ids;
  std::vector<float> probs;
  for (const Prediction& p : all) {
    ids.insert(ids.end(), p.top_ids.begin(), p.top_ids.end());
    probs.insert(probs.end(), p.top_probs.begin(), p.top_probs.end());
  }
  batch.set("top_ids", Tensor::from(Shape{count, top}, ids));
  batch.set("top_probs", Tensor::from(Shape{count, top}, probs));
  return batch;
}

void Decoder::commit(int64_t number, std::span<const int64_t> positions,
                     std::span<const int32_t> tokens) {
  drop_suspended();
  Entry& held = entry(number);
  if (positions.size() != tokens.size())
    fail(Code::invalid_argument,
         "got {} positions and {} tokens, expected a token for each position", positions.size(),
         tokens.size());
  const int64_t vocab = model_->config().vocab_size, length = held.request.length();
  const int32_t mask_id = held.method->mask_id();
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < 0 || positions[i] >= length) {
      fail(Code::invalid_argument, "position {} is not on the canvas of slot {}, expected 0 to {}",
           positions[i], number, length - 1);
    }
    if (tokens[i] < 0 || tokens[i] >= vocab || tokens[i] == mask_id) {
      fail(Code::invalid_argument,
           "token {} at position {} cannot be decided, expected 0 to {} without the mask token {}",
           tokens[i], positions[i], vocab - 1, mask_id);
    }
  }
  if (!held.predicted) fail_unpredicted(number);
  const auto predicted = [&](int64_t position) {
    return std::find_if(held.predictions.begin(), held.predictions.end(),
                        [&](const Prediction& p) { return p.position == position; });
  };
  for (const int64_t position : positions) {
    if (predicted(position) == held.predictions.end()) {
      fail_with_hint("statistics lists the positions", Code::invalid_argument,
                     "position {} of slot {} was not predicted in this step", position, number);
    }
  }
  check_tokens(held, positions, tokens);
  Trial trial{held.request, held.session->clone(), {}};
  std::vector<int64_t> decided;
  for (size_t i = 0; i < positions.size(); ++i) {
    const Prediction& p = *predicted(positions[i]);
    const bool likeliest = p.argmax == tokens[i];
    if (trial.request.is_open(positions[i])) decided.push_back(positions[i]);
    trial.request.decide(positions[i], tokens[i], likeliest ? p.max_probability : p.probability);
  }
  trial.outcome = trial.session->host_decided(trial.request, decided);
  accept(held, std::move(trial));
  publish({&held});
}

} // namespace dllm::decode
