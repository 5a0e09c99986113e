// Arrays of the engine, and the runs they come from.

#include "base/error.h"
#include "pjrt/engine_state.h"

#include <fmt/core.h>

namespace dllm::pjrt {

namespace {

constexpr int64_t kSmall = 1 << 20; // bytes of a result that is fetched along with another
constexpr uintptr_t kLendable = 64; // alignment below which plugins copy

abi::HostBufferSemantics host_use(const EngineState& state, const Tensor& tensor, bool share) {
  if (!share && tensor.writable()) return abi::HostBufferSemantics::during_call;
  const bool aligned = reinterpret_cast<uintptr_t>(tensor.bytes()) % kLendable == 0;
  if (share && aligned && state.on_cpu()) return abi::HostBufferSemantics::zero_copy;
  return abi::HostBufferSemantics::until_transfer_completes;
}

} // namespace

DeviceBuffer::DeviceBuffer(std::shared_ptr<EngineState> state, DType dtype, Shape shape,
                           Array array, std::shared_ptr<Run> run)
    : state_(std::move(state)), dtype_(dtype), shape_(std::move(shape)), array_(std::move(array)),
      run_(std::move(run)), bytes_(shape_.count() * dtype_size(dtype_)) {
  state_->counters().add_bytes(bytes_);
}

DeviceBuffer::~DeviceBuffer() {
  if (!is_donated()) state_->counters().remove_bytes(bytes_);
}

int64_t DeviceBuffer::memory_bytes() const {
  return is_donated() ? 0 : array_.device_bytes();
}

void DeviceBuffer::mark_donated() {
  if (!donated_.exchange(true, std::memory_order_acq_rel)) state_->counters().remove_bytes(bytes_);
}

bool DeviceBuffer::is_gone() const noexcept {
  try {
    return is_donated() || array_.is_deleted();
  } catch (const std::exception&) {
    return true;
  }
}

void DeviceBuffer::check_run() const {
  if (run_ != nullptr) run_->check();
}

DeviceBuffer::Fetch DeviceBuffer::start_fetch() const {
  Fetch fetch{Tensor(dtype_, shape_), {}};
  fetch.done = array_.copy_to(fetch.tensor);
  // The plugin writes into the tensor until then, whether a caller waits or not.
  hold_until(fetch.done, fetch.tensor);
  return fetch;
}

void DeviceBuffer::prefetch() const noexcept {
  if (bytes_ > kSmall || bytes_ == 0 || is_donated()) return;
  const std::lock_guard lock(mutex_);
  if (fetch_) return;
  try {
    fetch_ = start_fetch();
  } catch (const std::exception&) { // the next read fails with it again
  }
}

DeviceBuffer::Fetch DeviceBuffer::take_fetch() const {
  const std::lock_guard lock(mutex_);
  if (!fetch_) return start_fetch();
  Fetch taken = std::move(*fetch_);
  fetch_.reset();
  return taken;
}

Tensor DeviceBuffer::read(const Task*) const {
  if (is_donated()) {
    fail_with_hint("read it before the run, or keep another reference to it",
                   Code::failed_precondition, "an array {}{} was taken over by a run",
                   dtype_name(dtype_), shape_.text());
  }
  if (bytes_ == 0) return Tensor(dtype_, shape_);
  const bool first = run_ == nullptr || run_->begin_trip();
  if (first) state_->counters().round_trips.fetch_add(1);
  Fetch fetch = take_fetch();
  if (run_ != nullptr) {
    if (first) {
      for (const auto& result : run_->results()) {
        if (result.get() != this) result->prefetch();
      }
    }
    run_->wait(); // its failure explains more than that of the transfer
    run_->check();
  }
  await(fetch.done);
  return std::move(fetch.tensor);
}

std::shared_ptr<DeviceBuffer> upload(std::shared_ptr<EngineState> state, const Tensor& tensor,
                                     bool share) {
  if (!tensor.defined()) fail(Code::invalid_argument, "there is no array to upload");
  if (tensor.format() != nullptr) {
    fail_with_hint("load the model with dtype=bf16 (or f32, int8)", Code::unimplemented,
                   "the pjrt engine does not multiply weights of format {}", tensor.format()->name);
  }
  Array array = state->client().upload(tensor, state->device(), host_use(*state, tensor, share));
  return std::make_shared<DeviceBuffer>(std::move(state), tensor.dtype(), tensor.shape(),
                                        std::move(array), nullptr);
}

graph::StateLost lost_state(const Error& error) {
  return {error.code(), error.text(), "the run had taken its inputs over", error.hint()};
}

Run::Run(EventHandle finished, std::string program, bool took_state)
    : program_(std::move(program)), took_state_(took_state), finished_(std::move(finished)) {}

void Run::wait() {
  const std::lock_guard one(waiting_);
  if (!finished_) return;
  std::optional<Error> failure;
  try {
    await(finished_);
  } catch (const Error& error) {
    failure.emplace(error.code(), fmt::format("graph {}: {}", program_, error.text()),
                    error.hint());
  }
  const std::lock_guard lock(mutex_);
  finished_.reset();
  failure_ = std::move(failure);
}

void Run::check() const {
  const std::lock_guard lock(mutex_);
  if (!failure_) return;
  if (took_state_) throw lost_state(*failure_);
  throw *failure_;
}

bool Run::begin_trip() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(trip_begun_, true);
}

void Run::set_results(std::vector<std::weak_ptr<DeviceBuffer>> results) {
  results_ = std::move(results);
}

std::vector<std::shared_ptr<DeviceBuffer>> Run::results() const {
  std::vector<std::shared_ptr<DeviceBuffer>> alive;
  for (const auto& result : results_) {
    if (auto buffer = result.lock()) alive.push_back(std::move(buffer));
  }
  return alive;
}

void RunQueue::set_limit(size_t limit) {
  const std::lock_guard lock(mutex_);
  limit_ = limit;
}

size_t RunQueue::limit() const {
  const std::lock_guard lock(mutex_);
  return limit_;
}

std::shared_ptr<Run> RunQueue::pop_beyond(size_t kept) {
  const std::lock_guard lock(mutex_);
  if (runs_.size() <= kept) return nullptr;
  std::shared_ptr<Run> oldest = std::move(runs_.front());
  runs_.pop_front();
  return oldest;
}

void RunQueue::make_room() {
  while (const auto oldest = pop_beyond(limit() - 1)) oldest->wait();
}

void RunQueue::add(std::shared_ptr<Run> run) {
  const std::lock_guard lock(mutex_);
  runs_.push_back(std::move(run));
}

void RunQueue::drain() {
  while (const auto oldest = pop_beyond(0)) oldest->wait();
}

} // namespace dllm::pjrt
