#include "text/data/anchor_cache.h"

#include "base/error.h"
#include "base/files.h"
#include "base/sha256.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

namespace dllm::text {
namespace {

constexpr const char* kIds = "input_ids";
constexpr size_t kShownIds = 16; // ids of a chunk in an error

Tensor wide_ids(std::span<const int32_t> ids) {
  return Tensor::from(Shape{std::ssize(ids)}, std::vector<int64_t>(ids.begin(), ids.end()));
}

std::string ids_text(std::span<const int32_t> ids) {
  std::string text;
  for (const int32_t id : ids.first(std::min(ids.size(), kShownIds)))
    text += (text.empty() ? "" : ", ") + std::to_string(id);
  return "[" + text + (ids.size() > kShownIds ? ", ...]" : "]");
}

} // namespace

std::string anchor_key(std::span<const int32_t> ids) {
  Sha256 hash;
  for (const int32_t id : ids) {
    const auto wide = static_cast<uint64_t>(static_cast<int64_t>(id));
    uint8_t bytes[8];
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(wide >> (8 * i));
    hash.add(bytes, sizeof bytes);
  }
  return hex(hash.finish()).substr(0, 16);
}

std::string anchor_path(const std::string& folder, const std::string& key) {
  return join_path(join_path(folder, key.substr(0, 2)), key + ".safetensors");
}

std::string anchor_manifest(const std::string& folder) {
  return join_path(folder, "manifest.json");
}

std::vector<AnchorChunk> chunks_of(std::span<const int32_t> segments) {
  std::vector<AnchorChunk> made;
  for (size_t begin = 0, end = 0; begin < segments.size(); begin = end) {
    while (end < segments.size() && segments[end] == segments[begin]) ++end;
    if (segments[begin] != 0) made.push_back({begin, end});
  }
  return made;
}

PackedStates pack_states(const Tensor& states, int64_t group) {
  const Shape& shape = states.shape();
  PackedStates made{Tensor(DType::i8, shape), Tensor(DType::f32, {shape[0], shape[1] / group})};
  const auto to = made.numbers.mutable_as<int8_t>();
  const auto scales = made.scales.mutable_as<float>();
  const auto size = static_cast<size_t>(group);
  for (size_t g = 0; g < scales.size(); ++g) {
    const auto from = states.as<float>().subspan(g * size, size);
    float most = 0;
    for (const float x : from) {
      if (!std::isfinite(x)) {
        fail_with_hint(
            "use store f32 or bf16, and look at the teacher with dllm verify", Code::data_loss,
            "a state of the teacher is {}, which int8 cannot hold: token {} of the chunk", x,
            g * size / static_cast<size_t>(shape[1]));
      }
      most = std::max(most, std::fabs(x));
    }
    scales[g] = most / 127;
    for (size_t i = 0; i < size; ++i) {
      const float level = scales[g] > 0 ? std::nearbyint(from[i] / scales[g]) : 0;
      to[g * size + i] = static_cast<int8_t>(std::clamp(level, -127.0f, 127.0f));
    }
  }
  return made;
}

Tensor unpack_states(const Tensor& numbers, const Tensor& scales) {
  Tensor made(DType::f32, numbers.shape());
  const auto from = numbers.as<int8_t>();
  const auto to = made.mutable_as<float>();
  const auto size = static_cast<size_t>(numbers.shape()[1] / scales.shape()[1]);
  for (size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<float>(from[i]) * scales.as<float>()[i / size];
  return made;
}

void write_anchors(const std::string& folder, std::span<const int32_t> ids,
                   ckpt::NamedTensors arrays) {
  const std::string path = anchor_path(folder, anchor_key(ids));
  make_directories(parent_path(path));
  arrays.emplace_back(kIds, wide_ids(ids));
  const std::string own = path + "." + unique_word(); // another process may write the same chunk
  ckpt::write_safetensors(own, arrays);
  rename_path(own, path);
}

namespace {

// A chunk of a batch: row `row`, tokens [begin, end).
struct Place {
  int64_t row;
  AnchorChunk chunk;
};

// The arrays of a batch while chunks are read.
class Reading {
public:
  Reading(Batch& batch, const std::vector<std::string>& names, int64_t hidden)
      : batch_(batch), names_(names), hidden_(hidden), shape_(batch.at("ids").shape()) {}

  void read(const std::string& path, const Place& place, std::span<const int32_t> ids) {
    const ckpt::SafetensorsFile file(open_content(path), path);
    const Tensor found = file.tensor(kIds);
    const Tensor wanted = wide_ids(ids);
    if (found.dtype() != DType::i64 || found.shape() != wanted.shape() ||
        !std::ranges::equal(found.as<int64_t>(), wanted.as<int64_t>())) {
      fail_with_hint("remove the file and run dllm anchors again", Code::data_loss,
                     "{}: {} has other tokens than the name of the file says", path, kIds);
    }
    for (const std::string& name : names_) put(place, name, numbers_of(file, name, ids.size()));
  }
  void finish() {
    for (auto& [name, array] : made_) batch_.set(name, std::move(array));
  }

private:
  Tensor numbers_of(const ckpt::SafetensorsFile& file, const std::string& name,
                    size_t tokens) const {
    const Tensor numbers = file.tensor(name);
    const bool is_state = name.starts_with(kAnchorState);
    const Shape& shape = numbers.shape();
    const bool fits = shape.rank() == 2 && shape[0] == static_cast<int64_t>(tokens) &&
                      (!is_state || shape[1] == hidden_);
    if (!fits) {
      fail(Code::data_loss, "{}: {} has shape {}, expected ({}, {})", file.name(), name,
           shape.text(), tokens, is_state ? std::to_string(hidden_) : "k");
    }
    if (numbers.dtype() != DType::i8) return numbers;
    const Tensor scales = file.tensor(name + kAnchorScale);
    if (scales.dtype() != DType::f32 || scales.shape().rank() != 2 ||
        scales.shape()[0] != shape[0] || scales.shape()[1] < 1 ||
        shape[1] % scales.shape()[1] != 0) {
      fail(Code::data_loss, "{}: {}{} has shape {}, expected ({}, groups)", file.name(), name,
           kAnchorScale, scales.shape().text(), tokens);
    }
    return unpack_states(numbers, scales);
  }

  void put(const Place& place, const std::string& name, const Tensor& numbers) {
    const int64_t width = numbers.shape()[1];
    Tensor& array = made_[name];
    if (!array.defined()) {
      array = Tensor(numbers.dtype(), {shape_[0], shape_[1], width});
      std::memset(array.mutable_bytes(), 0, static_cast<size_t>(array.byte_size()));
    }
    if (array.shape()[2] != width) {
      fail(Code::data_loss, "array {} of the anchors has {} and {} numbers for a token", name,
           array.shape()[2], width);
    }
    const Tensor same = numbers.to(array.dtype());
    const int64_t first = place.row * shape_[1] + static_cast<int64_t>(place.chunk.begin);
    std::memcpy(array.mutable_bytes() + first * width * dtype_size(array.dtype()), same.bytes(),
                static_cast<size_t>(same.byte_size()));
  }

  Batch& batch_;
  const std::vector<std::string>& names_;
  int64_t hidden_;
  Shape shape_;
  std::map<std::string, Tensor> made_;
};

} // namespace

AnchorCache::AnchorCache(const std::string& folder) : folder_(folder) {
  const std::string path = anchor_manifest(folder);
  if (!file_exists(path)) {
    fail_with_hint("let dllm anchors end: it goes on where it was stopped",
                   Code::failed_precondition,
                   "{} has no manifest.json, which is written after all anchors", folder);
  }
  const Json manifest = parse_json(read_text(path), path);
  const Json layers = manifest.value("layers", Json());
  const Json hidden = manifest.value("hidden_size", Json());
  const bool fits =
      layers.is_array() && hidden.is_number_integer() &&
      std::ranges::all_of(layers, [](const Json& layer) { return layer.is_number_integer(); });
  if (!fits) fail(Code::data_loss, "{}: expected layers [7, ...] and hidden_size", path);
  hidden_ = hidden.get<int64_t>();
  for (const Json& layer : layers)
    names_.push_back(kAnchorState + std::to_string(layer.get<int64_t>()));
  const Json own = manifest.value("dllm", Json::object());
  const Json top = own.is_object() ? own.value("top", Json(0)) : Json(0);
  if (!top.is_number_integer()) fail(Code::data_loss, "{}: dllm.top is not a number", path);
  if (top.get<int64_t>() > 0) {
    names_.emplace_back(kTopIds);
    names_.emplace_back(kTopLogits);
  }
}

void AnchorCache::add_to(Batch& batch, const Tensor& segments, int64_t first,
                         const Words& words) const {
  const Tensor ids = batch.at("ids");
  const auto seq = static_cast<size_t>(ids.shape()[1]);
  Reading reading(batch, names_, hidden_);
  for (int64_t row = 0; row < ids.shape()[0]; ++row) {
    const size_t begin = static_cast<size_t>(row) * seq;
    for (const AnchorChunk& chunk : chunks_of(segments.as<int32_t>().subspan(begin, seq))) {
      const auto own = ids.as<int32_t>().subspan(begin + chunk.begin, chunk.end - chunk.begin);
      const std::string path = anchor_path(folder_, anchor_key(own));
      if (!file_exists(path)) {
        const std::string text = words ? words(own) : "";
        fail_with_hint("run dllm anchors with the data, tokenizer and rows of this training",
                       Code::not_found, "{} has no anchors of row {}{}: {} tokens {}", folder_,
                       first + row, text.empty() ? "" : " \"" + text + "\"", own.size(),
                       ids_text(own));
      }
      reading.read(path, {row, chunk}, own);
    }
  }
  reading.finish();
}

} // namespace dllm::text
