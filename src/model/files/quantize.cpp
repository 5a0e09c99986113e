#include "model/files/quantize.h"

#include "base/error.h"
#include "base/files.h"
#include "ckpt/bitsandbytes/bits4.h"
#include "ckpt/gguf/gguf_parts.h"
#include "ckpt/gguf/gguf_writer.h"
#include "ckpt/model_place.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "model/families/family.h"
#include "model/files/export_note.h"
#include "model/files/gguf_metadata.h"
#include "model/files/quantize_bits4.h"
#include "model/files/quantize_tensors.h"
#include "model/files/save.h"
#include "model/params/partition.h"
#include "text/tokenizer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <utility>

namespace dllm::model {
namespace {

void write_gguf(const std::string& path, const ckpt::GgufMetadata& metadata,
                const std::vector<QuantizeTensor>& tensors, Quantizer& work) {
  std::vector<ckpt::GgufTensorSpec> specs;
  for (const QuantizeTensor& tensor : tensors)
    specs.push_back({tensor.name, tensor.format, tensor.shape});
  ckpt::GgufWriter writer(path, metadata, std::move(specs));
  for (const QuantizeTensor& tensor : tensors) {
    for (const QuantizePart& part : tensor.parts) {
      const std::vector<std::byte> bytes = work.encode(tensor, part);
      writer.write(bytes.data(), static_cast<int64_t>(bytes.size()), work.task());
    }
  }
  writer.close();
}

void write_folder(FolderSave& folder, const std::vector<QuantizeTensor>& tensors, Quantizer& work) {
  std::vector<ckpt::TensorSpec> specs;
  std::map<std::string, const QuantizeTensor*> by_name;
  for (const QuantizeTensor& tensor : tensors) {
    specs.push_back({tensor.name, dtype_from_name(tensor.format->name), tensor.shape});
    by_name[tensor.name] = &tensor;
  }
  constexpr int64_t kShard = int64_t{5} << 30;
  ckpt::WeightWriter writer(folder.partial(), "model", specs, kShard, {{"format", "pt"}});
  for (const ckpt::TensorSpec& spec : writer.order()) {
    const QuantizeTensor& tensor = *by_name.at(spec.name);
    const auto bytes =
        std::make_shared<std::vector<std::byte>>(work.encode(tensor, tensor.parts.front()));
    writer.write(spec.name,
                 Tensor(spec.dtype, spec.shape, Bytes(bytes->data(), bytes->size(), bytes)),
                 work.task());
  }
  writer.close();
}

std::string side_text(const Source& source, const char* name) {
  return source.has(name) ? std::string(source.open(name).text()) : std::string();
}

// The rule of Llama 3.1 is written as a tensor.
void add_rope_divisors(const ModelConfig& config, std::vector<QuantizeTensor>& tensors) {
  const Tensor divisors = rope_divisors(config);
  if (!divisors.defined()) return;
  QuantizePart part{divisors.byte_size(), [divisors](const Task*) { return divisors; }, nullptr};
  tensors.push_back(
      {"rope_freqs.weight", divisors.shape(), &weight_format(DType::f32), {std::move(part)}});
}

void put_tokenizer(const ModelConfig& config, const Source& source, ckpt::GgufMetadata& to,
                   Quantizer& work) {
  if (!source.has("tokenizer.json") && !source.has("vocab.json"))
    return work.note("the model has no tokenizer.json, so the file has no tokenizer");
  std::string why;
  try {
    const auto tokenizer = text::Tokenizer::load(source, Options(text::tokenizer_schema()));
    if (put_gguf_tokenizer(*tokenizer, side_text(source, "tokenizer_config.json"), config, to,
                           &why))
      return;
  } catch (const Error& error) {
    why = "the tokenizer is left out: " + error.text();
  }
  work.note(why);
}

void to_gguf(const OpenedModel& opened, const Source& source,
             const std::shared_ptr<const WeightSource>& weights, const std::string& path,
             Quantizer& work) {
  ckpt::GgufMetadata metadata;
  std::vector<QuantizeTensor> tensors;
  if (opened.gguf != nullptr) { // copies its metadata, and its tensors under their names
    for (const auto& [key, value] : opened.gguf->metadata()) {
      if (key != "general.file_type" && key != "general.alignment") metadata.copy(key, value);
    }
    tensors = tensors_of_gguf(opened.gguf, work);
  } else {
    put_gguf_config(opened.config, metadata);
    put_tokenizer(opened.config, source, metadata, work);
    tensors = tensors_of_model(weights, opened.config, true, work);
    add_rope_divisors(opened.config, tensors);
  }
  metadata.u32("general.file_type", ckpt::gguf_file_type(work.format()));
  work.set_total(total_bytes(tensors));
  write_gguf(path, metadata, tensors, work);
}

void put_side_files(const OpenedModel& opened, const Source& source, const std::string& folder,
                    Quantizer& work) {
  const auto put = [&](const char* name, const std::string& text) {
    write_file_atomic(join_path(folder, name), text);
  };
  if (opened.gguf == nullptr) {
    for (const char* name : kSideFiles) {
      if (source.has(name)) put(name, side_text(source, name));
    }
    return;
  }
  try {
    const auto tokenizer = text::Tokenizer::load(source, Options(text::tokenizer_schema()));
    put("tokenizer.json", tokenizer->to_json());
    put("tokenizer_config.json", tokenizer->config_json());
    if (tokenizer->ends().size() > 1)
      put("generation_config.json", Json{{"eos_token_id", tokenizer->ends()}}.dump(2) + "\n");
  } catch (const Error& error) {
    work.note("the tokenizer is left out: " + error.text());
  }
}

// Returns the type of most numbers.
DType most_floats(const ModelConfig& config, const WeightSource& weights) {
  std::map<DType, int64_t> counts;
  for (const ParamSpec& spec : find_family(config.family).params(config)) {
    for (const ParamPiece& piece : spec.pieces)
      counts[weights.dtype(spec.logical_name(piece, 0))] +=
          spec.copies() * spec.logical_shape(piece).count();
  }
  DType most = DType::f32;
  for (const auto& [dtype, count] : counts) {
    if (count > counts[most]) most = dtype;
  }
  return most == DType::f64 ? DType::f32 : most;
}

// Returns config.json for other programs, with the class and the type of the numbers.
std::string config_text(const ModelConfig& config, const std::string& path, bool has_codes,
                        DType floats, Quantizer& work) {
  Json object = config_to_json(config);
  const char* name = transformers_class(config);
  if (name == nullptr) {
    work.note("transformers has no class for model_type " + config.model_type +
              ": it needs the code of the model's own repository (trust_remote_code)");
  } else {
    if (!object.contains("architectures")) object["architectures"] = {name};
    if (const std::string note = export_note(config, path); !note.empty()) work.note(note);
  }
  object.erase("dtype");
  object.erase("quantization_config");
  object["torch_dtype"] = floats == DType::bf16  ? "bfloat16"
                          : floats == DType::f16 ? "float16"
                                                 : "float32";
  if (work.format().bitsandbytes != nullptr)
    object["quantization_config"] = bits4_config(work.format(), has_codes);
  return object.dump(2) + "\n";
}

// Returns "f32, bf16, f16", which a folder holds.
std::string float_names() {
  std::string names;
  for (const WeightFormat* format : weight_formats()) {
    if (format->is_float()) names += (names.empty() ? "" : ", ") + std::string(format->name);
  }
  return names;
}

// A tower of the model, which a folder of floats holds next to the base.
struct Tower {
  std::string name;
  ModelConfig config;
  std::shared_ptr<const WeightSource> weights;
  bool is_in_base; // its tensors are in the files of the base, with its name in front
};

// Returns the towers in the files of the base, and in folders of a checkpoint.
std::vector<Tower> towers_of(const ckpt::ModelPlace& place, const ModelConfig& base,
                             const std::shared_ptr<const WeightSource>& weights,
                             const Options& options, Task* task) {
  std::vector<Tower> towers;
  for (const ckpt::ModelPlace::Network& network : place.networks) {
    const std::unique_ptr<Source> source = ckpt::open_model_source(network.folder);
    OpenedModel own = open_model(*source);
    if (!own.config.tower.on) continue;
    towers.push_back({network.name, own.config,
                      chosen_weights(options.str("weights"), open_weights(own, *source, task),
                                     place.checkpoint, network.name),
                      false});
  }
  for (auto& [name, config] : part_configs(base)) {
    if (std::ranges::find(towers, name, &Tower::name) == towers.end())
      towers.push_back({name, config, weights, true});
  }
  return towers;
}

// Adds the tensors of towers, under names that begin with their part.
void add_towers(const std::vector<Tower>& towers, std::vector<QuantizeTensor>& tensors,
                Quantizer& work) {
  for (const Tower& tower : towers) {
    const std::string part = tower.is_in_base ? tower.name : kBasePart;
    for (QuantizeTensor& tensor :
         tensors_of_model(tower.weights, tower.config, false, work, part)) {
      if (!tower.is_in_base) tensor.name = qualified_name(tower.name, tensor.name);
      tensors.push_back(std::move(tensor));
    }
  }
}

// Fails for a form without towers, where the base needs them.
void check_filler(const ModelConfig& config, const WeightFormat& format, bool is_gguf) {
  if (!config.filler.on() || (!is_gguf && format.is_float())) return;
  fail_with_hint("write a folder of " + float_names(), Code::unimplemented,
                 "the model has a mask filler, which {} does not hold",
                 is_gguf ? std::string("a GGUF file") : "a folder of " + std::string(format.name));
}

void to_folder(const OpenedModel& opened, const Source& source,
               const std::shared_ptr<const WeightSource>& weights, const std::vector<Tower>& towers,
               const std::string& path, const Options& options, Quantizer& work) {
  FolderSave folder(path, options.boolean("overwrite"), work.task());
  const bool has_codes = options.boolean("double_quant");
  const bool is_packed = work.format().bitsandbytes != nullptr;
  const DType floats =
      is_packed ? most_floats(opened.config, *weights) : dtype_from_name(work.format().name);
  if (is_packed) {
    write_bits4_folder(folder.partial(), weights, opened.config, has_codes, work);
  } else {
    auto tensors = tensors_of_model(weights, opened.config, false, work);
    add_towers(towers, tensors, work);
    work.set_total(total_bytes(tensors));
    write_folder(folder, tensors, work);
  }
  put_side_files(opened, source, folder.partial(), work);
  folder.move_into_place(config_text(opened.config, path, has_codes, floats, work));
}

void check_target(const std::string& path, const WeightFormat& format, bool is_gguf,
                  bool overwrite) {
  if (is_gguf && !ckpt::ggml_type_of(format)) {
    fail_with_hint(format.bitsandbytes != nullptr
                       ? "name a folder, which bitsandbytes reads"
                       : "choose q8_0, or load the model with --model.dtype int8",
                   Code::unimplemented, "a GGUF file does not hold {}", format.name);
  }
  if (!is_gguf && !format.is_float() && format.bitsandbytes == nullptr) {
    fail_with_hint("name the output something.gguf, or choose " + float_names() + ", " +
                       ckpt::bits4_names("or"),
                   Code::unimplemented, "a folder of safetensors does not hold {}", format.name);
  }
  if (!is_gguf || !(file_exists(path) || is_directory(path))) return;
  if (is_directory(path) || !overwrite)
    fail_with_hint(is_directory(path) ? "it is a folder: choose another name"
                                      : "set option overwrite, or choose another name",
                   Code::already_exists, "{} is there already", path);
}

// Resolves "auto": the float type of most numbers of the input, or bf16 for an input of quantized
// matrices.
const WeightFormat& chosen_format(const std::string& name, const OpenedModel& opened,
                                  const WeightSource& weights) {
  if (name != "auto") return weight_format(name);
  if (weights.quantized()) return weight_format(DType::bf16);
  return weight_format(dtype_name(most_floats(opened.config, weights)));
}

// Lists formats that a file can hold. Those before "auto" are recommended, and a program proposes
// them in this order.
std::vector<std::string> target_names() {
  std::vector<std::string> names = {"q8_0", "q4_k", "q6_k", "q4_0", "auto"};
  for (const WeightFormat* format : weight_formats()) {
    if (std::find(names.begin(), names.end(), format->name) == names.end())
      names.emplace_back(format->name);
  }
  return names;
}

} // namespace

const Schema& quantize_schema() {
  static const Schema schema(
      "quantize",
      {option_choice("format", "q8_0", target_names(),
                     "Format of matrices; vectors and routers are f32. A folder holds " +
                         float_names() + ", and " + ckpt::bits4_names("or") +
                         " for the matrices of layers. auto: the float type of the input, bf16 of "
                         "a quantized one."),
       option_bool("double_quant", false,
                   "The scales of " + ckpt::bits4_names("and") +
                       " are stored in 8 bits too: 4.13 bits for a number in place of 4.5."),
       weights_option(),
       option_bool("overwrite", false, "A file, or a folder that a save wrote, may be replaced.")});
  return schema;
}

Json quantize_model(const std::string& from, const std::string& to, const Options& options,
                    Task* task) {
  const std::string& wanted = options.str("format");
  const bool is_gguf = to.ends_with(".gguf"), overwrite = options.boolean("overwrite");
  if (wanted != "auto") check_target(to, weight_format(wanted), is_gguf, overwrite);
  const ckpt::ModelPlace place = ckpt::model_place(from);
  if (!place.adapters.empty()) {
    fail_with_hint("dllm export --merge writes a model with them; the base alone is " + place.base,
                   Code::unimplemented,
                   "{} has adapters, which a converted or quantized model cannot hold", from);
  }
  const std::unique_ptr<Source> source = ckpt::open_model_source(place.base);
  OpenedModel opened = open_model(*source);
  if (!place.objective.empty()) opened.config.objective = place.objective;
  const std::shared_ptr<const WeightSource> weights =
      chosen_weights(options.str("weights"), open_weights(opened, *source, task), place.checkpoint);
  if (opened.gguf == nullptr || !is_gguf)
    weights->check(partitioned_params(opened.config, graph::Mesh()));
  const WeightFormat& format = chosen_format(wanted, opened, *weights);
  if (wanted == "auto") check_target(to, format, is_gguf, overwrite);
  if (options.boolean("double_quant") && format.bitsandbytes == nullptr) {
    fail_with_hint("leave it out, or choose " + ckpt::bits4_names("or"), Code::invalid_argument,
                   "double_quant is for the scales of {}, and the format is {}",
                   ckpt::bits4_names("and"), format.name);
  }
  check_filler(opened.config, format, is_gguf);
  std::vector<Tower> towers;
  if (!is_gguf && format.is_float())
    towers = towers_of(place, opened.config, weights, options, task);
  std::vector<std::string> left_out;
  for (const ckpt::ModelPlace::Network& network : place.networks) {
    if (std::ranges::find(towers, network.name, &Tower::name) == towers.end())
      left_out.push_back(network.name);
  }
  warn_of_left_out(to, std::move(left_out));
  Json parts = Json::object();
  for (const Tower& tower : towers) parts[tower.name] = config_to_json(tower.config);
  opened.config.parts = parts.empty() ? "" : parts.dump();
  Quantizer work(format, task);
  if (is_gguf)
    to_gguf(opened, *source, weights, to, work);
  else
    to_folder(opened, *source, weights, towers, to, options, work);
  return work.report();
}

} // namespace dllm::model
