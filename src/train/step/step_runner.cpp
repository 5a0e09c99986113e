#include "train/step/step_runner.h"

#include "base/error.h"
#include "graph/engine.h"
#include "model/params/stack_part.h"
#include "runtime/programs.h"
#include "train/step/feeds.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dllm::train {
namespace {

constexpr size_t kKeptPrograms = 8;

// Returns true when arrays of `bytes` bytes fit under the engine's limit after `before` is dropped.
bool fits_without(const model::Model& model, const model::Model::Backup& before, int64_t bytes) {
  const int64_t limit = model.engine().i64("memory_limit");
  const int64_t used = model.engine().i64("memory_used");
  return limit > 0 && used - model.params().bytes_only_in(before.params) + bytes <= limit;
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

StepRunner::StepRunner(std::shared_ptr<model::Model> model, noise::ObjectiveRef objective,
                       const Options& options)
    : objective_(std::move(objective)), options_(options), rate_(learning_rate_of(options)),
      hyper_(hyper_of(options)), spec_{.options = options}, programs_(kKeptPrograms),
      own_requests_(kControlCount), all_requests_(kControlCount) {
  optimizer_of(options);
  model_ = std::move(model);
  model::Model::Backup before = model_->backup();
  try {
    prepare_model(*model_, *objective_, options);
    spec_ = program_spec(*model_, *objective_, options);
  } catch (...) {
    model_->restore(std::move(before));
    throw;
  }
  try {
    make_arrays();
  } catch (...) {
    arrays_.clear();
    if (!fits_without(*model_, before, state_bytes(spec_))) {
      model_->restore(std::move(before));
      throw;
    }
    before = {};
    make_arrays();
  }
  objective_state_ = objective_->first_state();
  model_->add_selection(spec_.selection);
  list_version_ = model_->params().list_version();
}

StepRunner::~StepRunner() = default;

void StepRunner::make_arrays() {
  const std::vector<graph::BufferRef> weights = model_->params().snapshot();
  for (const StateEntry& entry : spec_.state) {
    switch (entry.use) {
    case StateUse::optimizer: arrays_.push_back(empty_array(entry.layout)); break;
    case StateUse::average:
      arrays_.push_back(model::upload_copy(engine(), *weights[spec_.trained[entry.parameter]],
                                           entry.layout.layout(), nullptr));
      break;
    case StateUse::sum: arrays_.push_back(nullptr); break;
    }
  }
}

void StepRunner::check_list() const {
  if (model_->params().list_version() == list_version_) return;
  fail_with_hint("make this trainer again", Code::failed_precondition,
                 "another trainer cut or widened the parameters that this trainer changes");
}

void StepRunner::check_usable() const {
  check_list();
  if (lost_.empty()) return;
  fail_with_hint("restore the last checkpoint", Code::aborted, "the trainer's state was lost: {}",
                 lost_);
}

Hyper StepRunner::hyper() const {
  const std::lock_guard lock(hyper_mutex_);
  return hyper_;
}

void StepRunner::set_hyper(double Hyper::*member, double value) {
  const std::lock_guard lock(hyper_mutex_);
  hyper_.*member = value;
}

std::vector<graph::BufferRef> StepRunner::averages() const {
  check_list();
  std::vector<graph::BufferRef> made(model_->params().physical().size());
  model_->params().while_whole([&] {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      if (spec_.state[i].use == StateUse::average)
        made[spec_.trained[spec_.state[i].parameter]] = arrays_[i];
    }
  });
  return made;
}

graph::BufferRef StepRunner::empty_array(const model::ParamSpec& layout) const {
  return model::upload_zeros(engine(), layout);
}

Feeds StepRunner::feeds_of(const Batch& batch, bool is_part) const {
  const NoiseKey key{static_cast<uint64_t>(options_.i64("seed")),
                     objective_->keyed_by_batch() ? counters_.batches : counters_.step};
  const UpdatePart part{accumulated_.batches, accumulated_.rows, options_.i64("accumulate")};
  Feeds feeds = make_feeds(*objective_, model_->config(), batch, key, is_part ? &part : nullptr,
                           engine().mesh());
  for (Batch& feed : feeds) feed = noise::with_state(std::move(feed), objective_state_);
  return feeds;
}

std::vector<float> StepRunner::scalars() const {
  const Hyper hyper = this->hyper();
  const UpdateInfo info{hyper.lr * rate_.factor(counters_.updates, clock_), hyper.weight_decay,
                        counters_.updates + 1};
  std::vector<float> made;
  for (const double value : spec_.optimizer->step_scalars(options_, info))
    made.push_back(static_cast<float>(value));
  const size_t own = spec_.optimizer->scalars.size();
  if (made.size() != own)
    fail(Code::internal, "the optimizer made {} scalars, expected {}", made.size(), own);
  made.resize(own + kSharedScalarCount);
  made[own + kClip] = hyper.clip > 0 ? static_cast<float>(hyper.clip) : INFINITY;
  made[own + kEmaDecay] = static_cast<float>(options_.f64("ema"));
  made[own + kNormalizer] = static_cast<float>(
      spec_.mean_of_means ? static_cast<double>(accumulated_.batches) : accumulated_.normalizer);
  made[own + kLossSum] = static_cast<float>(accumulated_.sum);
  return made;
}

// Begins a step. The seconds until it is read are shared by all steps that were in flight with it.
StepRunner::InFlight StepRunner::begin(ProgramKind kind) const {
  InFlight step;
  step.kind = kind;
  step.before = step.after = counters_;
  step.start = std::chrono::steady_clock::now();
  step.share = 1.0 / static_cast<double>(1 + in_flight_.size());
  const double lr = hyper().lr * rate_.factor(counters_.updates, clock_);
  step.lr = static_cast<double>(static_cast<float>(lr)); // rounded as in the program
  return step;
}

// Starts a run. The program is compiled when the feed has a new shape.
void StepRunner::launch(InFlight& step, const Feeds& feeds, const std::vector<float>& scalars,
                        const Task* task) {
  check_task(task);
  step.program = programs_.get({step.kind, runtime::feed_signature(feeds[0])}, [&] {
    return std::make_shared<const TrainProgram>(spec_, step.kind, feeds[0], task);
  });
  check_task(task);
  const bool has_ranks = engine().mesh().ranks() > 1 && engine().kind() == "cpu";
  const int64_t waited = has_ranks ? engine().i64("rank_wait_us") : 0;
  try {
    step.numbers = step.program->run(
        {model_->params(), arrays_, halted_, scalars, own_requests_, feeds}, task);
  } catch (const graph::StateLost& error) {
    lost_ = error.text();
    throw;
  }
  if (has_ranks) // this engine runs a step before it returns
    step.rank_wait = static_cast<double>(engine().i64("rank_wait_us") - waited) * 1e-6;
  step.flops = step.program->flops(feeds);
  if (step.kind != ProgramKind::apply) recomputed_ = step.program->recompute();
}

void StepRunner::push(InFlight step) {
  counters_ = step.after;
  in_flight_.push_back(std::move(step));
  wait_where_needed();
}

void StepRunner::start_step(const Batch& batch, const Task* task) {
  check_usable();
  if (accumulated_.batches > 0) {
    fail_with_hint("call apply first", Code::failed_precondition, "{} batches are accumulated",
                   accumulated_.batches);
  }
  make_room();
  InFlight step = begin(ProgramKind::fused);
  const Feeds feeds = feeds_of(batch, false);
  launch(step, feeds, scalars(), task);
  step.tokens = count_tokens(batch);
  step.input_wait = std::exchange(input_wait_, 0);
  step.after.tokens += step.tokens;
  ++step.after.batches;
  ++step.after.step;
  ++step.after.updates;
  push(std::move(step));
}

void StepRunner::start_accumulate(const Batch& batch, const Task* task) {
  check_usable();
  make_room();
  InFlight step = begin(ProgramKind::accumulate);
  const Feeds feeds = feeds_of(batch, true);
  allocate_sums();
  launch(step, feeds, {}, task);
  ++step.after.batches;
  ++accumulated_.batches;
  accumulated_.rows += batch.global_rows(batch.at("ids").shape()[0]).second;
  accumulated_.drawn += objective_->is_prepared(batch) ? 0 : 1;
  accumulated_.tokens += count_tokens(batch);
  push(std::move(step));
}

// Reads all micro-batches first, because the update is divided by the sum of their counts.
void StepRunner::start_apply(const Task* task) {
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
  InFlight step = begin(ProgramKind::apply);
  step.sums = accumulated_;
  launch(step, Feeds(1), scalars(), task);
  accumulated_ = {};
  step.tokens = step.sums.tokens;
  step.input_wait = std::exchange(input_wait_, 0);
  step.after.tokens += step.tokens;
  ++step.after.step;
  ++step.after.updates;
  push(std::move(step));
}

void StepRunner::allocate_sums() {
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (spec_.state[i].use == StateUse::sum && arrays_[i] == nullptr)
      arrays_[i] = empty_array(spec_.state[i].layout);
  }
}

void StepRunner::clear_sums() {
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (spec_.state[i].use == StateUse::sum) arrays_[i] = nullptr;
  }
}

} // namespace dllm::train
