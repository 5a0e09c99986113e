// Implements arrays and programs of several ranks (ranks.h).
#include "base/error.h"
#include "cpu/ranks/ranks.h"

#include <algorithm>
#include <exception>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace dllm::cpu {
namespace {

// Returns true for an error that a communicator throws on one rank because another rank failed.
bool is_echo(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const graph::StateLost&) {
    return false;
  } catch (const Error& error) {
    return std::string_view(error.text()).starts_with("rank ");
  } catch (...) {
    return false;
  }
}

bool is_state_lost(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const graph::StateLost&) {
    return true;
  } catch (...) {
    return false;
  }
}

[[noreturn]] void rethrow_cause(const std::vector<std::exception_ptr>& failures) {
  std::vector<std::exception_ptr> found;
  std::ranges::copy_if(failures, std::back_inserter(found), [](const auto& f) { return bool(f); });
  const auto lost = std::ranges::find_if(found, is_state_lost);
  if (lost != found.end()) std::rethrow_exception(*lost);
  const auto cause = std::ranges::find_if_not(found, is_echo);
  std::rethrow_exception(cause != found.end() ? *cause : found[0]);
}

} // namespace

void Ranks::each(const std::function<void(size_t here)>& fn) const {
  std::vector<std::exception_ptr> failures(engines.size());
  const auto call = [&](size_t here) {
    try {
      fn(here);
    } catch (...) {
      failures[here] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  size_t started = 1;
  try {
    for (; started < engines.size(); ++started) threads.emplace_back(call, started);
  } catch (const std::system_error& error) {
    communicators[0]->abort(Error(Code::resource_exhausted,
                                  std::string("a thread cannot be started: ") + error.what()));
  }
  call(0);
  // Ranks without a thread are called here in turn, because every rank must see the failure.
  for (size_t rank = started; rank < engines.size(); ++rank) call(rank);
  for (std::thread& thread : threads) thread.join();
  if (std::ranges::any_of(failures, [](const auto& f) { return bool(f); })) rethrow_cause(failures);
}

RanksBuffer::RanksBuffer(std::shared_ptr<const Ranks> ranks, std::vector<graph::BufferRef> parts,
                         bool readable)
    : ranks_(std::move(ranks)), parts_(std::move(parts)), shape_(parts_[0]->shape()),
      dtype_(parts_[0]->dtype()), readable_(readable) {
  set_layout(parts_[0]->layout());
}

const Shape& RanksBuffer::shape() const {
  return shape_;
}

DType RanksBuffer::dtype() const {
  return dtype_;
}

void RanksBuffer::expect_readable() const {
  if (!readable_)
    fail(Code::failed_precondition, "an array that differs from rank to rank cannot be read");
  if (parts_[0] == nullptr) fail(Code::failed_precondition, "the array was donated to a run");
}

Tensor RanksBuffer::read(const Task* task) const {
  expect_readable();
  if (layout().is_whole()) return parts_[0]->read(task);
  if (ranks_->is_part()) {
    const auto turn = lock_with_task(ranks_->running, task);
    return gathered(parts_[0]->read(task), kEverywhere, task);
  }
  std::vector<Tensor> read;
  for (const graph::BufferRef& part : parts_) read.push_back(part->read(task));
  return layout().join(read, ranks_->mesh);
}

Tensor RanksBuffer::read_part(const Task* task) const {
  if (!ranks_->is_part()) return read(task);
  expect_readable();
  return parts_[0]->read(task);
}

std::vector<Tensor> RanksBuffer::read_dealt(std::span<const int64_t> owners,
                                            const Task* task) const {
  if (!ranks_->is_part()) return Buffer::read_dealt(owners, task);
  expect_readable();
  const auto turn = lock_with_task(ranks_->running, task);
  const Tensor part = parts_[0]->read(task);
  std::vector<Tensor> rows;
  for (int64_t row = 0; row < std::ssize(owners); ++row) {
    const int64_t owner = owners[static_cast<size_t>(row)];
    const Tensor own = owners.size() == 1 ? part : part.rows(row, row + 1);
    if (!layout().is_whole())
      rows.push_back(gathered(own, owner, task));
    else
      rows.push_back(ranks_->first == owner ? own : Tensor());
  }
  return rows;
}

// The group has one rank for each part; ranks with copies of these parts send nothing.
Tensor RanksBuffer::gathered(const Tensor& own, int64_t process, const Task* task) const {
  const graph::Mesh& mesh = ranks_->mesh;
  const bool everywhere = process == kEverywhere;
  const std::vector<int64_t> group =
      mesh.group_of(everywhere ? ranks_->first : process, layout().axes());
  if (std::ranges::find(group, ranks_->first) == group.end()) return {};
  comm::Communicator& communicator = *ranks_->communicators[0];
  const bool wanted = everywhere || ranks_->first == process;
  Tensor pieces(own.dtype(), own.shape().with_front(wanted ? std::ssize(group) : 0));
  pieces.set_format(own.format());
  if (everywhere) {
    communicator.all_gather(group, own.bytes(), pieces.mutable_bytes(), own.byte_size(), task);
  } else {
    const int64_t member = std::ranges::find(group, process) - group.begin();
    communicator.gather(group, member, own.bytes(), pieces.mutable_bytes(), own.byte_size(), task);
  }
  if (!wanted) return {};
  std::vector<Tensor> parts;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
    parts.push_back(pieces.row(mesh.index(rank, layout().axes())));
  return layout().join(parts, mesh);
}

int64_t RanksBuffer::memory_bytes() const {
  int64_t bytes = 0;
  for (const graph::BufferRef& part : parts_) bytes += part != nullptr ? part->memory_bytes() : 0;
  return bytes;
}

RanksProgram::RanksProgram(std::shared_ptr<Ranks> ranks, std::shared_ptr<const graph::Graph> graph)
    : ranks_(std::move(ranks)), donated_(graph->inputs().size()) {
  for (size_t here = 0; here < ranks_->engines.size(); ++here)
    programs_.push_back(ranks_->engines[here]->compile(graph, ranks_->place(here)));
  for (const graph::GraphOutput& output : graph->outputs()) {
    if (output.donated_input >= 0) donated_[static_cast<size_t>(output.donated_input)] = true;
  }
}

RanksBuffer& RanksProgram::buffer_at(std::span<const graph::BufferRef> inputs, size_t input) const {
  const std::string& name = graph().inputs()[input].name;
  if (inputs[input] == nullptr)
    fail(Code::invalid_argument, "input {} of graph {} is missing", name, graph().name());
  auto* mine = dynamic_cast<RanksBuffer*>(inputs[input].get());
  if (mine == nullptr) fail(Code::invalid_argument, "input {} belongs to another engine", name);
  return *mine;
}

RanksProgram::PartLists RanksProgram::parts_of(std::span<const graph::BufferRef> inputs) const {
  if (inputs.size() != donated_.size()) {
    fail(Code::invalid_argument, "graph {} has {} inputs, {} were given", graph().name(),
         donated_.size(), inputs.size());
  }
  PartLists parts(programs_.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<graph::BufferRef>& own = buffer_at(inputs, i).parts();
    for (size_t r = 0; r < parts.size(); ++r) parts[r].push_back(own[r]);
  }
  return parts;
}

// Runs the program on all ranks of this process. A run writes in place only into parts with one
// holder, so a donated buffer without another holder moves its parts to the run. When the run fails
// without StateLost, the buffer gets its parts again.
std::vector<graph::BufferRef> RanksProgram::run(std::span<const graph::BufferRef> inputs,
                                                const Task* task, graph::StopRule rule) {
  const auto turn = lock_with_task(ranks_->running, task);
  PartLists parts = parts_of(inputs);
  std::vector<size_t> moved;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!donated_[i] || inputs[i].use_count() != 1) continue;
    moved.push_back(i);
    std::ranges::fill(buffer_at(inputs, i).parts(), nullptr);
  }
  PartLists results(programs_.size());
  try {
    ranks_->each([&](size_t r) { results[r] = programs_[r]->run(parts[r], task, rule); });
  } catch (const graph::StateLost&) {
    throw;
  } catch (...) {
    for (const size_t i : moved) {
      for (size_t r = 0; r < parts.size(); ++r) buffer_at(inputs, i).parts()[r] = parts[r][i];
    }
    throw;
  }
  std::vector<graph::BufferRef> made;
  for (size_t o = 0; o < graph().outputs().size(); ++o) {
    const graph::GraphOutput& output = graph().outputs()[o];
    std::vector<graph::BufferRef> of_ranks;
    for (PartLists::value_type& of_rank : results) of_ranks.push_back(std::move(of_rank[o]));
    const bool equal = graph().type(output.value).axes.empty();
    made.push_back(std::make_shared<RanksBuffer>(ranks_, std::move(of_ranks),
                                                 equal || output.donated_input >= 0));
  }
  return made;
}

std::string RanksProgram::find_non_finite(std::span<const graph::BufferRef> inputs,
                                          const Task* task) {
  const auto turn = lock_with_task(ranks_->running, task);
  const PartLists parts = parts_of(inputs);
  std::vector<std::string> findings(programs_.size());
  ranks_->each([&](size_t r) { findings[r] = programs_[r]->find_non_finite(parts[r], task); });
  const auto found = std::ranges::find_if(findings, [](const auto& text) { return !text.empty(); });
  return found == findings.end() ? "" : *found;
}

} // namespace dllm::cpu
