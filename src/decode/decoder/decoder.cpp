#include "decode/decoder/decoder.h"

#include "decode/decoder/host_step.h"
#include "decode/decoder/step_events.h"
#include "model/adapters/adapter.h"

#include <nlohmann/json.hpp>

#include <utility>

namespace dllm::decode {

namespace {

// Returns a model of its own when the decoder loads adapters, else the model itself.
std::shared_ptr<model::Model> decoded_model(const std::shared_ptr<model::Model>& model,
                                            const Options& options) {
  return options.list("adapter_folders").empty() ? model : model::share_model(*model);
}

} // namespace

Decoder::Decoder(std::shared_ptr<model::Model> model, const Options& options)
    : Decoder(std::move(model), options, {}) {}

Decoder::Decoder(std::shared_ptr<model::Model> model, const Options& options, PolicyMaker make)
    : source_(std::move(model)), model_(decoded_model(source_, options)), state_(model_),
      failures_(slots_), admission_(model_, options, std::move(make), slots_, state_),
      step_(model_, source_, slots_, state_, failures_,
            admission_.method().options().str("on_change") != "fail") {}

Decoder::~Decoder() = default;

void Decoder::set_random_source(std::shared_ptr<const RandomSource> random_source) {
  admission_.set_random_source(std::move(random_source));
}

void Decoder::start(std::span<const int32_t> prompt, uint64_t seed) {
  suspended_.drop();
  finished_.clear();
  Options settings(request_schema());
  settings.set_i64("seed", static_cast<int64_t>(seed));
  SlotList::Slots before = std::exchange(slots_.all(), {});
  for (auto& [number, slot] : before) slot.cache_row().release();
  try {
    publisher_.put({&admission_.add(prompt, {}, settings)}, step_.totals(), true);
  } catch (...) {
    slots_.all() = std::move(before);
    throw;
  }
  step_.drop_replays();
}

int64_t Decoder::add(std::span<const int32_t> canvas, std::span<const uint8_t> fixed,
                     const Options& options, const OwnSettings& own) {
  // The programs of a suspended step read the list of parameters, which a load changes.
  if (is_suspended() && admission_.loads(options, own)) finish_suspended();
  Slot& added = admission_.add(canvas, fixed, options, own);
  publish({&added});
  return added.number();
}

void Decoder::remove(int64_t number) {
  slots_.at(number); // fails if there is no such slot
  suspended_.drop_with(number);
  std::erase_if(finished_, [&](const Change& change) { return change.request == number; });
  step_.forget(number);
  slots_.remove(number);
  publisher_.remove(number, step_.totals());
}

void Decoder::stop(int64_t number) {
  Slot& slot = slots_.at(number);
  if (!slot.is_active()) return;
  suspended_.drop_with(number);
  step_.forget(number);
  drop_replays();
  slot.stop();
  publish({&slot});
}

void Decoder::publish(const std::vector<Slot*>& changed) {
  publisher_.put(changed, step_.totals());
}

// Counters are published even if the step fails.
std::vector<Change> Decoder::advance(int64_t limit, bool watched, const Task* task) {
  const std::vector<Slot*> active = slots_.active();
  try {
    std::vector<Change> changes = step_.take(active, limit, watched, task);
    publish(active);
    return changes;
  } catch (...) {
    publish(active);
    throw;
  }
}

std::optional<std::vector<Change>> Decoder::advance_until(SuspendedStep::Clock::time_point until,
                                                          const Task* task) {
  return suspended_.run(
      slots_, [this](const Task* inner) { return advance(1, true, inner); }, until, task);
}

// Drops the steps that are not replayed yet. A suspended step still needs its own.
void Decoder::drop_replays() {
  if (!is_suspended()) step_.drop_replays();
}

// A step that fails changes no canvas, and a later call takes it again.
void Decoder::finish_suspended() {
  try {
    const auto changes = advance_until(SuspendedStep::Clock::time_point::max(), nullptr);
    finished_.insert(finished_.end(), changes->begin(), changes->end());
  } catch (const Error& error) {
    log(LogLevel::warn, "a suspended step failed and is taken again: {}", error.text());
  }
}

bool Decoder::send_finished(const EventFn& fn) {
  return send_events(fn, slots_, std::exchange(finished_, {}));
}

int64_t Decoder::step(const Task* task) {
  slots_.need_one();
  failures_.try_again();
  drop_replays();
  finished_.clear();
  if (is_suspended())
    advance_until(SuspendedStep::Clock::time_point::max(), task);
  else
    advance(1, true, task);
  return failures_.report();
}

int64_t Decoder::step_for(std::chrono::nanoseconds budget, const EventFn& fn, Task* task) {
  const auto begin = SuspendedStep::Clock::now();
  const auto most = SuspendedStep::Clock::time_point::max() - begin;
  const auto until = budget < most ? begin + budget : SuspendedStep::Clock::time_point::max();
  slots_.need_one();
  failures_.try_again();
  for (bool go_on = send_finished(fn); go_on && slots_.active_count() > 0;) {
    // A suspended step checks the task, and a cancel drops the step.
    if (!is_suspended()) check_task(task);
    drop_replays();
    const auto changes = advance_until(until, task);
    if (!changes) break;
    go_on = send_events(fn, slots_, *changes) && SuspendedStep::Clock::now() < until;
  }
  return failures_.report();
}

bool Decoder::run(const EventFn& fn, Task* task) {
  failures_.try_again();
  drop_replays();
  if (!send_finished(fn)) return false;
  for (int64_t steps = 1; slots_.active_count() > 0; ++steps) {
    if (!is_suspended()) check_task(task);
    const std::vector<Change> changes =
        is_suspended() ? *advance_until(SuspendedStep::Clock::time_point::max(), task)
                       : advance(INT64_MAX, static_cast<bool>(fn), task);
    if (task != nullptr)
      task->set_progress(steps, 0); // the total is unknown, because it depends on the tokens
    if (!send_events(fn, slots_, changes)) return false;
  }
  failures_.report();
  return true;
}

void Decoder::predict(const Task* task) {
  suspended_.drop();
  slots_.need_one();
  failures_.try_again();
  const std::vector<Slot*> active = slots_.active();
  check_predictable(active);
  try {
    step_.predict(active, task);
  } catch (...) {
    publish(active);
    throw;
  }
  publish(active);
  failures_.report();
}

void Decoder::commit(int64_t number, std::span<const int64_t> positions,
                     std::span<const int32_t> tokens) {
  suspended_.drop();
  Slot& slot = slots_.at(number);
  commit_tokens(slot, positions, tokens, model_->config().vocab_size);
  publish({&slot});
}

const Request& Decoder::request(int64_t number) const {
  return slots_.at(number).request();
}

RequestCopyRef Decoder::copy(int64_t number) const {
  return publisher_.copy(number);
}

Batch Decoder::statistics(int64_t number) const {
  return statistics_of(*copy(number));
}

double Decoder::metric(int64_t number, const std::string& key) const {
  return publisher_.metric(number, key, is_suspended());
}

std::string Decoder::trace(int64_t number) const {
  return publisher_.trace(number, admission_.method().options());
}

Json Decoder::describe() const {
  Json described = publisher_.describe(admission_.method(), is_suspended());
  described["adapters"] = Json::array(); // of the model, and those that are loaded now
  for (const std::string& part : model_->parts().adapters())
    described["adapters"].push_back(model::adapter_name(part));
  return described;
}

} // namespace dllm::decode
