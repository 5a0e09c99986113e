#include "train/trainer.h"

#include "base/error.h"
#include "base/log.h"
#include "base/named_table.h"
#include "model/adapters/adapter.h"
#include "model/plan.h"
#include "noise/terms/replayed_terms.h"
#include "train/run.h"
#include "train/sinks/event_metrics.h"
#include "train/step/step_metrics.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace dllm::train {
namespace {

constexpr size_t kKeptPrograms = 8;
// Steps and micro-batches that may be unread between two calls of the trainer.
constexpr size_t kMostUnread = 2;

// Returns true when arrays of `bytes` bytes fit under the engine's limit after `before` is dropped.
bool fits_without(const model::Model& model, const model::Model::Backup& before, int64_t bytes) {
  const int64_t limit = model.engine().i64("memory_limit");
  const int64_t used = model.engine().i64("memory_used");
  return limit > 0 && used - model.params().bytes_only_in(before.params) + bytes <= limit;
}

// Fails for several processes: each has the rows of its own, and a run may go on with others.
void check_replay(const graph::Engine& engine, const ReplayBuffer& replay) {
  if (!replay.is_on() || engine.processes() == 1) return;
  fail_with_hint("leave replay out, or train in one process", Code::unimplemented,
                 "replay keeps the batches of one process, and this job has {}",
                 engine.processes());
}

// The engine keeps the arena of the micro-batches for the next one. Where option memory has no room
// for it next to an update, it goes back to the system.
void make_room(const model::Model& model, int64_t update_bytes, int64_t memory) {
  if (memory == 0) return;
  graph::Engine& engine = model.engine();
  const int64_t coming = update_bytes - model::parameter_bytes(model);
  if (engine.i64("memory_used") + coming > memory) engine.trim();
}

// Counts the tokens of a batch without padding (segment 0).
int64_t count_tokens(const Batch& batch) {
  const Tensor* segments = batch.find("segments");
  if (segments == nullptr || segments->dtype() != DType::i32) return batch.at("ids").count();
  int64_t count = 0;
  for (const int32_t segment : segments->as<int32_t>()) count += segment != 0 ? 1 : 0;
  return count;
}

} // namespace

Trainer::Trainer(std::shared_ptr<model::Model> model, noise::ObjectiveRef objective,
                 const Options& options)
    : model_(std::move(model)), objective_(std::move(objective)), options_(options),
      rate_(learning_rate_of(options)), hyper_(hyper_of(options)), spec_{.options = options},
      arrays_(spec_), replay_(options), programs_(kKeptPrograms), evaluator_(model_, objective_) {
  check_replay(engine(), replay_);
  optimizer_of(options); // fails before the model changes
  model::Model::Backup before = model_->backup();
  try {
    prepare_model(*model_, *objective_, options);
    spec_ = program_spec(*model_, *objective_, options);
    if (spec_.offloads()) offload_ = std::make_unique<OffloadedUpdate>(spec_);
  } catch (...) {
    model_->restore(std::move(before));
    throw;
  }
  try {
    arrays_.allocate();
  } catch (...) {
    if (spec_.offloads() || !fits_without(*model_, before, state_bytes(spec_))) {
      model_->restore(std::move(before));
      throw;
    }
    before = {};
    arrays_.allocate();
  }
  objective_state_ = objective_->first_state();
  model_->add_selection(spec_.selection);
  list_version_ = model_->params().list_version();
}

Trainer::~Trainer() = default;

void Trainer::check_list() const {
  if (model_->params().list_version() == list_version_) return;
  fail_with_hint(
      "make this trainer again", Code::failed_precondition,
      "the parameters or the adapters of the model have changed since this trainer was made");
}

void Trainer::check_usable() const {
  check_list();
  if (lost_.empty()) return;
  fail_with_hint("restore the last checkpoint", Code::aborted, "the trainer's state was lost: {}",
                 lost_);
}

Hyper Trainer::hyper() const {
  const std::lock_guard lock(hyper_mutex_);
  return hyper_;
}

double Trainer::rate(int64_t tokens) const {
  // The processes of a job count the tokens of their own rows, so that they share one clock.
  const bool is_alone = engine().processes() == 1;
  const double used = is_alone ? token_share(options_, counters_.tokens) : 0.0,
               first = is_alone ? token_share(options_, tokens) : 0.0;
  return hyper().lr * rate_.factor(counters_.updates, std::max(exchange_.clock, used), first);
}

NoiseKey Trainer::noise_key() const {
  return {static_cast<uint64_t>(options_.i64("seed")),
          objective_->keyed_by_batch() ? counters_.batches : counters_.step,
          model::has_dropout(*model_)};
}

std::optional<UpdatePart> Trainer::update_part(bool is_part) const {
  if (!is_part) return std::nullopt;
  return UpdatePart{accumulated_.batches, accumulated_.rows, options_.i64("accumulate")};
}

Feeds Trainer::feeds_of(const Batch& batch, bool is_part) const {
  const std::optional<UpdatePart> part = update_part(is_part);
  Feeds feeds = make_feeds(*objective_, model_->config(), batch, noise_key(),
                           part ? &*part : nullptr, engine().mesh());
  for (Batch& feed : feeds) feed = objective_->with_state(std::move(feed), objective_state_);
  add_replayed(feeds);
  return feeds;
}

// Adds the arrays of an earlier batch, with the noise that it had, where the draw says so.
void Trainer::add_replayed(Feeds& feeds) const {
  const ReplayedBatch* again = replay_.drawn(counters_.batches);
  if (again == nullptr) return;
  const Feeds replayed = make_feeds(*spec_.replay, model_->config(), again->rows, again->key,
                                    again->part ? &*again->part : nullptr, engine().mesh());
  for (size_t i = 0; i < feeds.size(); ++i) {
    for (const auto& [name, array] : replayed[i]) feeds[i].set(kReplayed + name, array);
    // A batch that a script prepared has the weight of its own step.
    noise::set_replayed_weights(feeds[i], kReplayed);
  }
}

std::vector<float> Trainer::scalars(int64_t tokens) const {
  const Hyper hyper = this->hyper();
  const double normalizer =
      spec_.mean_of_means ? static_cast<double>(accumulated_.batches) : accumulated_.normalizer;
  return step_scalars(spec_, {rate(tokens), hyper.weight_decay, counters_.updates + 1},
                      {.clip = hyper.clip, .normalizer = normalizer, .loss_sum = accumulated_.sum});
}

// Starts a run. The program is compiled when the feed has a new shape.
void Trainer::launch(StartedStep& step, const Feeds& feeds, const std::vector<float>& scalars,
                     const Task* task) {
  check_task(task);
  step.program = programs_.get({step.kind, runtime::feed_signature(feeds[0])}, [&] {
    return std::make_shared<const TrainProgram>(spec_, step.kind, feeds[0], task);
  });
  check_task(task);
  const bool has_ranks = engine().mesh().ranks() > 1 && engine().kind() == "cpu";
  const int64_t waited = has_ranks ? engine().i64("rank_wait_us") : 0;
  try {
    if (offload_ != nullptr)
      run_offloaded(step, feeds, scalars, task);
    else
      run_program(step, feeds, scalars, task);
  } catch (const graph::StateLost& error) {
    lost_ = error.text();
    throw;
  }
  if (has_ranks) // this engine runs a step before it returns
    step.rank_wait = static_cast<double>(engine().i64("rank_wait_us") - waited) * 1e-6;
  step.flops = step.program->flops(feeds);
  if (step.kind != ProgramKind::apply) recomputed_ = step.program->recompute();
}

void Trainer::run_program(StartedStep& step, const Feeds& feeds, const std::vector<float>& scalars,
                          const Task* task) {
  std::vector<graph::BufferRef>& arrays =
      offload_ != nullptr ? offload_->gradients() : arrays_.all();
  step.numbers = step.program->run(
      {model_->params(), arrays, halted_, scalars, exchange_.requests(), feeds}, task);
}

// The program makes the gradients. Then the arrays outside of the engine follow.
void Trainer::run_offloaded(StartedStep& step, const Feeds& feeds,
                            const std::vector<float>& scalars, const Task* task) {
  const std::vector<graph::BufferRef>& arrays = arrays_.all();
  offload_->announce_first(arrays);
  if (step.kind == ProgramKind::apply) {
    make_room(*model_, offload_->update_bytes(), spec_.memory);
    offload_->load_sums(arrays);
  }
  try {
    run_program(step, feeds, scalars, task);
  } catch (...) {
    offload_->drop_gradients();
    throw;
  }
  if (step.kind == ProgramKind::accumulate)
    offload_->add_to_sums(arrays, accumulated_.batches == 0);
  else
    offload_->update(model_->params(), arrays, step.program->read(*step.numbers), scalars);
  offload_->release_gradients();
  if (step.kind == ProgramKind::apply) arrays_.clear_sums();
}

void Trainer::push(StartedStep step) {
  counters_ = step.after;
  started_.push(std::move(step));
  if (!engine().runs_ahead() || !objective_state_.empty() || offload_ != nullptr) read_all();
}

void Trainer::start_step(const Batch& batch, const Task* task) {
  check_usable();
  if (accumulated_.batches > 0) {
    fail_with_hint("call apply first", Code::failed_precondition, "{} batches are accumulated",
                   accumulated_.batches);
  }
  while (started_.count() >= kMostUnread) read_oldest();
  const int64_t tokens = count_tokens(batch);
  StartedStep step = started_.begin(ProgramKind::fused, counters_, rate(tokens));
  const Feeds feeds = feeds_of(batch, false);
  launch(step, feeds, scalars(tokens), task);
  replay_.push(batch, noise_key(), {});
  step.tokens = tokens;
  step.input_wait = exchange_.take_input_wait();
  step.after.tokens += step.tokens;
  ++step.after.batches;
  ++step.after.step;
  ++step.after.updates;
  push(std::move(step));
}

void Trainer::accumulate(const Batch& batch, const Task* task) {
  check_usable();
  while (started_.count() >= kMostUnread) read_oldest();
  StartedStep step = started_.begin(ProgramKind::accumulate, counters_, 0);
  const Feeds feeds = feeds_of(batch, true);
  arrays_.allocate_sums();
  launch(step, feeds, {}, task);
  replay_.push(batch, noise_key(), update_part(true));
  ++step.after.batches;
  ++accumulated_.batches;
  most_rows_ = std::max(most_rows_, batch.at("ids").shape()[0]);
  accumulated_.rows += batch.global_rows(batch.at("ids").shape()[0]).second;
  accumulated_.drawn += objective_->is_prepared(batch) ? 0 : 1;
  accumulated_.tokens += count_tokens(batch);
  push(std::move(step));
}

double Trainer::step(const Batch& batch, const Task* task) {
  start_step(batch, task);
  read_all();
  return last_loss_;
}

double Trainer::apply(const Task* task) {
  start_apply(task);
  read_all();
  return last_loss_;
}

// Reads all micro-batches first, because the update is divided by the sum of their counts.
void Trainer::start_apply(const Task* task) {
  read_all();
  if (accumulated_.batches == 0)
    fail_with_hint("call accumulate first", Code::failed_precondition, "nothing is accumulated");
  const int64_t whole = options_.i64("accumulate");
  if (objective_->spreads_over_rows() && accumulated_.drawn > 0 && accumulated_.batches < whole) {
    fail_with_hint("accumulate the rest, or set accumulate to the number of batches of an update",
                   Code::failed_precondition,
                   "{} of {} batches are accumulated: objective {} spreads its times over the rows "
                   "of the whole update",
                   accumulated_.batches, whole, objective_->name());
  }
  StartedStep step = started_.begin(ProgramKind::apply, counters_, rate(accumulated_.tokens));
  step.sums = accumulated_;
  launch(step, Feeds(1), scalars(accumulated_.tokens), task);
  accumulated_ = {};
  step.tokens = step.sums.tokens;
  step.input_wait = exchange_.take_input_wait();
  step.after.tokens += step.tokens;
  ++step.after.step;
  ++step.after.updates;
  push(std::move(step));
}

void Trainer::read_all() {
  check_usable();
  while (!started_.is_empty()) read_oldest();
}

void Trainer::sync() {
  read_all();
  saves_.background.wait();
}

// Reads the results of the oldest step. A device that failed has lost the arrays, and also the
// weights when one of the runs in flight writes them.
FinishedStep Trainer::finish_oldest() {
  try {
    return started_.read_oldest(spec_.mean_of_means);
  } catch (const Error& error) {
    lost_ = error.text();
    if (started_.changes_weights()) model_->params().lose(error.text());
    started_.clear();
    throw;
  }
}

void Trainer::read_oldest() {
  const FinishedStep done = finish_oldest();
  exchange_.receive(done.numbers.control);
  if (done.started.kind == ProgramKind::accumulate)
    return accumulated_.add(done.numbers, done.seconds, done.flops);
  if (!done.numbers.finite) {
    if (spec_.halts) halt(done);
    --counters_.updates;
    ++counters_.skipped;
  } else {
    take_observed(done.observed);
  }
  last_loss_ = done.loss;
  publish(done);
  if (exchange_.on_read) exchange_.on_read();
}

// Makes the next arrays of the objective. A sum that is not finite would stay in them for ever.
void Trainer::take_observed(const noise::Observed& observed) {
  if (objective_state_.empty()) return;
  for (const auto& [name, sums] : observed) {
    if (std::ranges::all_of(sums, [](double x) { return std::isfinite(x); })) continue;
    log(LogLevel::warn,
        "the loss observed a {} that is not finite: the state of objective {} stays", name,
        objective_->name());
    return;
  }
  objective_state_ = objective_->next_state(objective_state_, observed);
}

void Trainer::publish(const FinishedStep& done) {
  StepMetrics metrics = metrics_of(done, engine());
  metrics.skipped = static_cast<double>(counters_.skipped);
  metrics.checkpoint_stall_seconds = saves_.stall_seconds;
  metrics.run_seconds = exchange_.seconds;
  std::map<std::string, double> values = named_metrics(metrics);
  for (const auto& [name, part] : done.parts)
    values[name] = part.second > 0 ? part.first / part.second : 0.0;
  metrics_.set(values);
}

void Trainer::count_stall(double seconds) {
  saves_.stall_seconds += seconds;
  metrics_.set({{"checkpoint_stall_seconds", saves_.stall_seconds}});
}

void Trainer::set_run_seconds(double seconds) {
  exchange_.seconds = seconds;
  metrics_.set({{"run_seconds", seconds}});
}

// Undoes this update and all updates that were started after it, which the program left out.
void Trainer::halt(const FinishedStep& done) {
  counters_ = done.started.before;
  started_.clear();
  halted_ = nullptr;
  if (accumulated_.batches > 0) {
    accumulated_ = {};
    arrays_.clear_sums();
  }
  fail_with_hint(
      "lower lr, set clip, look at the data; or set nonfinite = skip", Code::aborted,
      "step {}: loss {} with gradient norm {} is not finite; the weights are as before the step",
      done.started.after.step, done.loss, done.numbers.grad_norm);
}

void Trainer::restore(RestoredState state) {
  started_.clear();
  halted_ = nullptr;
  model_->params().restore(std::move(state.weights),
                           [&] { arrays_.replace(std::move(state.arrays)); });
  objective_state_ = std::move(state.objective);
  replay_.set_kept(std::move(state.replayed));
  counters_ = state.counters;
  accumulated_ = std::move(state.accumulated);
  lost_.clear();
  {
    const std::lock_guard lock(hyper_mutex_);
    hyper_ = state.hyper;
  }
  metrics_.set({{"step", static_cast<double>(counters_.step)},
                {"tokens", static_cast<double>(counters_.tokens)},
                {"skipped", static_cast<double>(counters_.skipped)}});
  set_run_seconds(state.run_seconds);
  restored_ = true;
  rewind_all(sinks_, counters_.step);
}

bool Trainer::run(BatchSource& source, int64_t steps, const EventFn& fn, Task* task) {
  check_task(task);
  return Run(*this, source, steps, fn, task).go();
}

double Trainer::eval(BatchSource& source, int64_t max_batches, Task* task) {
  read_all();
  const Evaluation made = evaluator_.run(
      source, max_batches, most_rows_ > 0 ? most_rows_ : std::numeric_limits<int64_t>::max(),
      objective_state_, task);
  Event event(EventKind::eval);
  event.set("step", counters_.step).set("loss", made.loss);
  if (made.standard_error) event.set("stderr", *made.standard_error);
  if (made.bits_per_byte) event.set("bits_per_byte", *made.bits_per_byte);
  metrics_.set_eval(event);
  for (const auto& sink : sinks_) sink->write(event, {});
  return made.loss;
}

double Trainer::metric(const std::string& key) const {
  return metrics_.at(key);
}

Json Trainer::describe() const {
  const Hyper hyper = this->hyper();
  Json made;
  made["metrics"] = metrics_.all();
  for (const EventMetric& row : event_metrics()) {
    if (made["metrics"].contains(row.column())) made["units"][row.column()] = row.unit;
  }
  made["lr"] = hyper.lr;
  made["weight_decay"] = hyper.weight_decay;
  made["clip"] = hyper.clip;
  made["accumulated"] = accumulated_.batches;
  made["recomputed"] = recomputed_.load();
  made["options"] = options_.to_json();
  made["optimizer"] = describe_optimizer(spec_);
  if (spec_.offloads()) {
    made["offload"] = {{"place", spec_.offload},
                       {"bytes", state_bytes(spec_)},
                       {"window", offload_->window_bytes()}};
  }
  made["objective"] = objective_->describe();
  Json quirks = Json::array();
  if (spec_.mean_of_means)
    quirks.push_back(
        "each accumulated batch is divided by its own count, as dllm-jax and nano-dlm do");
  if (rate_.starts_at_zero)
    quirks.push_back("the first update of warm-up has rate 0, as in dllm-jax and nano-dlm");
  made["quirks"] = quirks;
  return made;
}

void Trainer::set_f64(const std::string& key, double value) {
  constexpr std::pair<const char*, double Hyper::*> kKeys[] = {
      {"lr", &Hyper::lr}, {"weight_decay", &Hyper::weight_decay}, {"clip", &Hyper::clip}};
  if (!std::isfinite(value) || value < 0) {
    fail(Code::invalid_argument, "{} = {} must be finite and 0 or more", key, value);
  }
  double Hyper::*const member = need_named(kKeys, key, kEntryName, {"trainer setting"}).second;
  const std::lock_guard lock(hyper_mutex_);
  hyper_.*member = value;
}

void Trainer::add_sink(const std::string& kind, const std::string& target, const Options& options) {
  if (engine().process() > 0) return; // the first process writes for all
  std::unique_ptr<Sink> made = make_sink(kind, target, options);
  if (restored_) made->rewind(counters_.step);
  sinks_.push_back(std::move(made));
}

std::shared_ptr<model::Model> Trainer::model(const std::string& role) const {
  if (role == "live") return model_;
  if (role != "ema") fail_unnamed({"model role"}, role, {"live", "ema"});
  if (!spec_.ema) {
    fail_with_hint("make the trainer with ema = 0.999", Code::failed_precondition,
                   "this trainer keeps no moving average");
  }
  check_list();
  const std::vector<graph::BufferRef> averages = arrays_.averages();
  return model::clone_model(*model_, [&](size_t index) {
    return averages[index] == nullptr ? Tensor() : averages[index]->read();
  });
}

} // namespace dllm::train
