#include "base/error.h"
#include "base/named_table.h"
#include "ckpt/bitsandbytes/bits4.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/scaled/scaled.h"
#include "model/files/save.h"
#include "model/files/weights.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace dllm::model {
namespace {

// Returns true for tensors that checkpoints of real models have in addition to their weights. In
// old ones these are tables that follow from the config.
bool is_leftover(std::string_view name) {
  constexpr std::string_view kEndings[] = {".rotary_emb.inv_freq", ".attn.bias",
                                           ".attn.masked_bias", "embeddings.position_ids"};
  // Parts of folders outside of the language model. Qwen3.5: the vision tower and a head for
  // several tokens. BERT: heads over whole texts. DiffusionGemma: the vision tower.
  constexpr std::string_view kOtherParts[] = {
      "model.visual.",         "mtp.",
      "bert.pooler.",          "cls.seq_relationship.",
      "model.encoder.vision_", "model.encoder.embed_vision."};
  if (std::any_of(std::begin(kOtherParts), std::end(kOtherParts),
                  [&](std::string_view begin) { return name.starts_with(begin); }))
    return true;
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](std::string_view end) { return name.ends_with(end); });
}

// Two names of one vector of BERT. transformers 5 reads the second name and saves both.
constexpr const char *kBertBias = "cls.predictions.bias",
                     *kBertHeadBias = "cls.predictions.decoder.bias";

// Returns the name in old files of BERT, which have TensorFlow's words.
std::string old_norm_word(std::string name) {
  constexpr const char* kWords[][2] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                       {"LayerNorm.bias", "LayerNorm.beta"}};
  for (const auto& [word, old] : kWords) {
    const size_t at = name.rfind(word);
    if (at != std::string::npos) return name.replace(at, std::string::npos, old);
  }
  return {};
}

class WeightFilesSource final : public WeightSource {
public:
  WeightFilesSource(const Source& source, const std::string& second_head)
      : described_(source.describe()), files_(source), second_head_(second_head),
        quantization_(quantization_of(source)), scaled_(files_, quantization_, described_) {
    find_bits4();
  }

  void check(const std::vector<ParamSpec>& specs) const override {
    std::set<std::string> known;
    for (const ParamSpec& spec : specs) {
      for (int64_t layer = 0; layer < spec.copies(); ++layer) {
        for (const ParamPiece& piece : spec.pieces) {
          const std::string name = spec.logical_name(piece, layer);
          known.insert(check_tensor(name, spec.logical_shape(piece)));
        }
      }
    }
    if (has(second_head_)) known.insert(find(second_head_));
    if (known.contains(kBertHeadBias)) known.insert(kBertBias);
    for (const std::string& name : files_.names()) {
      if (known.contains(name) || is_leftover(name) || belongs_to_bits4(name) || scaled_.owns(name))
        continue;
      const ckpt::TensorInfo& info = files_.info(name);
      refuse_quantized(info.file, name);
      fail_with_hint("check that config.json belongs to the weights and has their family",
                     Code::data_loss, "{}: unexpected tensor {} {}", info.file, name,
                     info.shape.text());
    }
  }

  bool has(const std::string& logical) const override { return !find(logical).empty(); }
  Shape shape(const std::string& logical) const override {
    const ckpt::Bits4Form* form = bits4_form(find(logical));
    return form != nullptr ? form->shape : files_.info(find(logical)).shape;
  }
  DType dtype(const std::string& logical) const override {
    const std::string name = find(logical);
    return has_codes(name) ? DType::f32 : *files_.info(name).dtype;
  }
  bool quantized() const override { return !bits4_.empty() || !scaled_.empty(); }
  int64_t file_bytes(const std::string& logical) const override {
    const ckpt::TensorInfo& info = files_.info(find(logical));
    return info.end - info.begin;
  }
  Tensor read(const std::string& logical, const Task* task) const override {
    const std::string& name = find(logical);
    if (has_codes(name)) return numbers_of(name, Box::whole(shape(logical)), task);
    return task == nullptr ? files_.tensor(name) : files_.tensor_copy(name, task);
  }
  Tensor read_part(const std::string& logical, const Box& box, const Task* task) const override {
    const std::string& name = find(logical);
    if (has_codes(name)) return numbers_of(name, box, task);
    if (box.is_all_of(files_.info(name).shape)) return read(logical, task);
    return files_.part_copy(name, box, task);
  }
  Tensor read_part_to(const std::string& logical, const Box& box, std::byte* to,
                      const Task* task) const override {
    const std::string name = find(logical);
    if (!has_codes(name)) return files_.part_to(name, box, to, task);
    read_numbers(name, box, reinterpret_cast<float*>(to), task);
    const auto bytes = static_cast<size_t>(box.shape.count() * dtype_size(DType::f32));
    return Tensor(DType::f32, box.shape, Bytes(to, bytes, nullptr));
  }
  const WeightFormat* format(const std::string& logical) const override {
    const std::string name = find(logical);
    if (const ckpt::ScaledForm* scaled = scaled_.find(name))
      return scaled->has_row_scales() ? &weight_format(DType::i8) : nullptr;
    const ckpt::Bits4Form* form = bits4_form(name);
    if (form == nullptr) return WeightSource::format(logical);
    return form->has_block_rows() ? form->format : &weight_format(DType::f32);
  }
  Tensor read_blocks(const std::string& logical, const Box& box, std::byte* to,
                     const Task* task) const override {
    const std::string name = find(logical);
    const ckpt::Bits4Form* form = bits4_form(name);
    if (form == nullptr) return WeightSource::read_blocks(logical, box, to, task);
    bits4(name, box, task).read_blocks(to, task);
    const Shape stored = stored_shape(*form->format, box.shape);
    Tensor view(DType::u8, stored, Bytes(to, static_cast<size_t>(stored.count()), nullptr));
    view.set_format(form->format);
    return view;
  }
  ScaledRows read_rows(const std::string& logical, const Box& box,
                       const Task* task) const override {
    const std::string name = find(logical);
    const ckpt::ScaledForm* form = scaled_.find(name);
    if (form == nullptr) return WeightSource::read_rows(logical, box, task);
    const ckpt::ScaledMatrix matrix(files_, name, *form, box, task);
    return {matrix.values(), matrix.row_scales()};
  }

private:
  static Json quantization_of(const Source& source) {
    if (!source.has(kConfigFile)) return nullptr;
    const Json config =
        parse_json(source.open(kConfigFile).text(), source.describe() + "/" + kConfigFile);
    return config.is_object() ? config.value("quantization_config", Json()) : Json();
  }
  // Returns true for matrices whose numbers are computed from codes and scales.
  bool has_codes(const std::string& name) const {
    return bits4_form(name) != nullptr || scaled_.find(name) != nullptr;
  }
  // Finds the matrices of bitsandbytes by the tensors "<matrix>.quant_state.bitsandbytes__nf4".
  void find_bits4() {
    for (const std::string& name : files_.names()) {
      const size_t end = name.find(ckpt::kBits4State);
      if (end == std::string::npos) continue;
      const Tensor text = files_.tensor(name);
      if (text.dtype() != DType::u8)
        fail(Code::data_loss, "{}: tensor {} is {}, expected u8", described_, name,
             dtype_name(text.dtype()));
      const std::string_view json(reinterpret_cast<const char*>(text.bytes()),
                                  static_cast<size_t>(text.byte_size()));
      const std::string where = described_ + ": " + name;
      bits4_[name.substr(0, end)] = ckpt::Bits4Form::of(parse_json(json, where), where);
    }
  }
  const ckpt::Bits4Form* bits4_form(const std::string& name) const {
    const auto found = bits4_.find(name);
    return found == bits4_.end() ? nullptr : &found->second;
  }
  bool belongs_to_bits4(const std::string& name) const {
    const size_t weight = name.find(".weight.");
    return weight != std::string::npos && bits4_.contains(name.substr(0, weight) + ".weight");
  }
  // Checks the types and sizes of the tensors of a matrix.
  void check_bits4(const std::string& name, const ckpt::Bits4Form& form) const {
    for (const ckpt::Bits4Form::Part& part : form.parts()) {
      const std::string own = name + part.ending;
      if (!files_.has(own))
        fail(Code::data_loss, "{}: tensor {} is missing, which {} needs", described_, own, name);
      const ckpt::TensorInfo& info = files_.info(own);
      const bool has_shape = info.shape == part.shape || info.shape == Shape{part.shape.count()};
      if (info.dtype == part.dtype && has_shape) continue;
      fail(Code::data_loss, "{}: tensor {} is {}{}, expected {}{}", info.file, own, info.type,
           info.shape.text(), dtype_name(part.dtype), part.shape.text());
    }
  }
  // Reads what a part of a matrix needs. Packed bytes are u8(bytes, 1), or u8(bytes) in old files.
  ckpt::Bits4Matrix bits4(const std::string& name, const Box& box, const Task* task) const {
    return {bits4_.at(name), described_ + ": " + name, box,
            [&](const char* ending, const Box& part) {
              const std::string own = name + ending;
              const bool is_flat = files_.info(own).shape.rank() == 1;
              return files_.part_copy(own, is_flat ? Box{{part.begin[0]}, {part.shape[0]}} : part,
                                      task);
            }};
  }
  void read_numbers(const std::string& name, const Box& box, float* to, const Task* task) const {
    if (const ckpt::ScaledForm* form = scaled_.find(name))
      return ckpt::ScaledMatrix(files_, name, *form, box, task).read_numbers(to, task);
    bits4(name, box, task).read_numbers(to, task);
  }
  Tensor numbers_of(const std::string& name, const Box& box, const Task* task) const {
    Tensor made(DType::f32, box.shape);
    read_numbers(name, box, made.mutable_as<float>().data(), task);
    return made;
  }

  // Fails for a tensor of a quantized folder that is not read.
  void refuse_quantized(const std::string& file, const std::string& name) const {
    const std::pair<std::string_view, std::string> endings[] = {
        {".qweight", packer()},
        {".qzeros", packer()},
        {".g_idx", packer()},
        {".SCB", "8-bit bitsandbytes"},
        {".weight_packed", "compressed-tensors with packed numbers"},
        {".weight_scale", "numbers with scales in another place"}};
    for (const auto& [ending, what] : endings) {
      if (!name.ends_with(ending)) continue;
      fail_with_hint("dequantize the model in the program that wrote it, save it, and pack it with "
                     "dllm quantize; 4-bit bitsandbytes, fp8 (e4m3) and int8 with scales are read",
                     Code::unimplemented,
                     "{}: tensor {} belongs to weights of {}, which are not read", file, name,
                     what);
    }
  }
  // Returns the name of the program that packed tensors "qweight".
  std::string packer() const {
    const std::string method =
        quantization_.is_object() ? quantization_.value("quant_method", Json()).dump() : "";
    if (method == "\"gptq\"") return "GPTQ";
    if (method == "\"awq\"") return "AWQ";
    const auto has_order = [](const std::string& name) { return name.ends_with(".g_idx"); };
    return std::ranges::any_of(files_.names(), has_order) ? "GPTQ" : "GPTQ or AWQ";
  }

  // Some checkpoints leave out the name of the whole model: "h.0.ln_1.weight" for
  // "transformer.h.0.ln_1.weight".
  std::string find(const std::string& logical) const {
    if (logical == kBertBias && files_.has(kBertHeadBias)) return kBertHeadBias;
    if (files_.has(logical)) return logical;
    if (logical == kBertHeadBias && files_.has(kBertBias)) return kBertBias;
    const size_t dot = logical.find('.');
    if (dot != std::string::npos && files_.has(logical.substr(dot + 1)))
      return logical.substr(dot + 1);
    const std::string old = old_norm_word(logical);
    return !old.empty() && files_.has(old) ? old : std::string();
  }

  std::string check_tensor(const std::string& logical, const Shape& expected) const {
    const std::string name = find(logical);
    if (name.empty()) {
      for (const std::string& other : files_.names()) refuse_quantized(described_, other);
      const std::string near = nearest(logical, files_.names());
      fail_with_hint(near.empty() ? "" : "there is a tensor named " + near, Code::data_loss,
                     "{}: tensor {} {} is missing", described_, logical, expected.text());
    }
    const ckpt::TensorInfo& info = files_.info(name);
    if (const ckpt::Bits4Form* form = bits4_form(name)) {
      if (form->shape != expected)
        fail(Code::data_loss, "{}: tensor {} has shape {}, expected {}", info.file, name,
             form->shape.text(), expected.text());
      check_bits4(name, *form);
      return name;
    }
    if (info.shape != expected) {
      fail(Code::data_loss, "{}: tensor {} has shape {}, expected {}", info.file, name,
           info.shape.text(), expected.text());
    }
    if (scaled_.find(name) != nullptr) return name;
    if (!info.dtype || !is_float(*info.dtype)) {
      fail_with_hint("f32, bf16, f16 and f64 are read", Code::unimplemented,
                     "{}: tensor {} has type {}", info.file, name, info.type);
    }
    return name;
  }

  std::string described_;
  ckpt::WeightFiles files_;
  std::string second_head_;
  const Json quantization_; // "quantization_config" of config.json, or null
  ckpt::ScaledForms scaled_;
  std::map<std::string, ckpt::Bits4Form> bits4_; // by the name of the matrix
};

} // namespace

std::unique_ptr<WeightSource> open_weight_files(const Source& source,
                                                const std::string& second_head) {
  return std::make_unique<WeightFilesSource>(source, second_head);
}

Shape WeightSource::shape(const std::string& logical) const {
  fail(Code::internal, "there is no tensor {}", logical);
}

const WeightFormat* WeightSource::format(const std::string& logical) const {
  return find_weight_format(dtype_name(dtype(logical)));
}

Tensor WeightSource::read_blocks(const std::string& logical, const Box& box, std::byte* to,
                                 const Task* task) const {
  const WeightFormat& own = *format(logical);
  const Tensor elements = read_part_to(logical, box, to, task); // of a type of its own: f16
  Tensor view(DType::u8, stored_shape(own, box.shape),
              Bytes(to, static_cast<size_t>(elements.byte_size()), nullptr));
  view.set_format(&own);
  return view;
}

WeightSource::ScaledRows WeightSource::read_rows(const std::string& logical, const Box& /*box*/,
                                                 const Task* /*task*/) const {
  fail(Code::internal, "tensor {} has no scales of rows", logical);
}

} // namespace dllm::model
