// The file of replayed batches in a checkpoint. Batch i has the tensors "i.<array>" of its rows,
// and "i" i64(kPlaces), from which its noise is drawn.

#include "train/replay/replay_file.h"

#include "base/error.h"
#include "base/files.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/safetensors/safetensors_writer.h"

#include <map>

namespace dllm::train {
namespace {

constexpr const char* kReplayFile = "state/replay.safetensors";

// Numbers of a batch. Without a part of an update the last three are 0.
enum ReplayPlace { kSeed, kStep, kOfAdapters, kIsPart, kBatches, kRows, kOfBatches, kPlaces };

Tensor places_of(const ReplayedBatch& batch) {
  std::vector<int64_t> numbers(kPlaces);
  numbers[kSeed] = static_cast<int64_t>(batch.key.seed);
  numbers[kStep] = batch.key.step;
  numbers[kOfAdapters] = batch.key.of_adapters ? 1 : 0;
  if (batch.part) {
    numbers[kIsPart] = 1;
    numbers[kBatches] = batch.part->batches;
    numbers[kRows] = batch.part->rows;
    numbers[kOfBatches] = batch.part->of_batches;
  }
  return Tensor::from(Shape{kPlaces}, numbers);
}

void set_places(ReplayedBatch& batch, const Tensor& tensor) {
  if (tensor.dtype() != DType::i64 || tensor.count() != kPlaces)
    fail(Code::data_loss, "{}: the numbers of a batch are damaged", kReplayFile);
  const std::span<const int64_t> numbers = tensor.as<int64_t>();
  batch.key = {static_cast<uint64_t>(numbers[kSeed]), numbers[kStep], numbers[kOfAdapters] != 0};
  if (numbers[kIsPart] != 0)
    batch.part = UpdatePart{numbers[kBatches], numbers[kRows], numbers[kOfBatches]};
}

} // namespace

void write_replayed(const std::deque<ReplayedBatch>& kept, const std::string& checkpoint) {
  if (kept.empty()) return;
  ckpt::NamedTensors tensors;
  for (size_t i = 0; i < kept.size(); ++i) {
    const std::string number = std::to_string(i);
    tensors.emplace_back(number, places_of(kept[i]));
    for (const auto& [name, array] : kept[i].rows) tensors.emplace_back(number + "." + name, array);
  }
  ckpt::write_safetensors(join_path(checkpoint, kReplayFile), tensors);
}

std::deque<ReplayedBatch> read_replayed(const std::string& checkpoint) {
  std::deque<ReplayedBatch> kept;
  const std::string path = join_path(checkpoint, kReplayFile);
  if (!file_exists(path)) return kept;
  const ckpt::SafetensorsFile file(open_content(path), kReplayFile);
  std::map<size_t, ReplayedBatch> read;
  for (const auto& [name, info] : file.tensors()) {
    const size_t dot = name.find('.');
    const std::string digits = name.substr(0, dot);
    if (digits.empty() || digits.size() > 9 ||
        digits.find_first_not_of("0123456789") != std::string::npos)
      fail(Code::data_loss, "{}: a tensor is named {}", kReplayFile, name);
    ReplayedBatch& batch = read[std::stoul(digits)];
    if (dot == std::string::npos)
      set_places(batch, file.tensor(name));
    else
      batch.rows.set(name.substr(dot + 1), file.tensor(name).clone());
  }
  for (auto& [number, batch] : read) {
    if (number != kept.size() || !batch.rows.has("ids"))
      fail(Code::data_loss, "{}: batch {} is not complete", kReplayFile, kept.size());
    kept.push_back(std::move(batch));
  }
  return kept;
}

} // namespace dllm::train
