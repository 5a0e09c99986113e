#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/number.h"
#include "base/store/objects.h"
#include "ckpt/gguf/gguf_parts.h"
#include "ckpt/model_place.h"
#include "model/adapters/adapter_file.h"
#include "model/adapters/adapter_save.h"
#include "model/files/save.h"
#include "model/files/weights.h"
#include "model/model.h"
#include "model/network/edit_heads.h"
#include "model/params/number_range.h"
#include "model/params/partition.h"
#include "model/params/stack_part.h"
#include "model/plan.h"
#include "tensor/batch.h"

#include <nlohmann/json.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace dllm::model {
namespace {

constexpr const char* kConfig = kConfigFile;
// Size above which a quantized GGUF becomes int8 on an engine that does not multiply its format.
constexpr int64_t kLargestF32 = int64_t{1} << 30;

} // namespace

std::vector<std::pair<size_t, const ParamSpec*>>
reserve_largest_first(Model& model, const std::vector<ParamSpec>& specs,
                      const std::function<const WeightFormat&(const ParamSpec&)>& form_of) {
  std::vector<std::pair<size_t, const ParamSpec*>> order;
  for (const ParamSpec& spec : specs)
    order.emplace_back(model.params().reserve(spec, form_of(spec)), &spec);
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return weight_bytes(form_of(*a.second), a.second->shape()) >
           weight_bytes(form_of(*b.second), b.second->shape());
  });
  return order;
}

OpenedModel open_model(const Source& source) {
  OpenedModel opened;
  if (source.has(kConfig)) {
    opened.config =
        config_from_text(source.open(kConfig).text(), source.describe() + "/" + kConfig);
    return opened;
  }
  if (!ckpt::holds_gguf(source)) {
    if (source.has("adapter_config.json")) {
      fail_with_hint("name its model, and this folder with option adapter (--model.adapter)",
                     Code::not_found, "{} is an adapter and not a whole model", source.describe());
    }
    fail_with_hint("give a model folder with config.json and model.safetensors, or one .gguf file",
                   Code::not_found, "{} has no {} and no .gguf file", source.describe(), kConfig);
  }
  const ckpt::GgufParts parts = ckpt::find_gguf(source);
  for (const std::string& name : parts.left_out)
    log(LogLevel::warn, "{}: {} is left out", source.describe(), name);
  opened.gguf = ckpt::open_gguf(source, parts);
  opened.config = config_from_gguf(*opened.gguf);
  return opened;
}

std::unique_ptr<WeightSource> open_weights(OpenedModel& opened, const Source& source,
                                           const Task* task) {
  if (opened.gguf) return open_gguf_weights(opened.gguf, opened.config);
  auto weights = open_weight_files(source, own_head_name(opened.config));
  untie_own_head(opened.config, *weights, source.describe(), task);
  return weights;
}

namespace {

int64_t f32_bytes(const std::vector<ParamSpec>& specs) {
  int64_t bytes = 0;
  for (const ParamSpec& spec : specs) bytes += spec.shape().count() * 4;
  return bytes;
}

// Returns true when a tensor of the stack holds plain floats.
bool is_float(const WeightSource& weights, const ParamSpec& spec) {
  for (int64_t layer = 0; layer < spec.copies(); ++layer) {
    for (const ParamPiece& piece : spec.pieces) {
      const WeightFormat* found = weights.format(spec.logical_name(piece, layer));
      if (found != nullptr && found->is_float()) return true;
    }
  }
  return false;
}

// Option dtype: "keep" is another word for auto.
bool as_in_file(const std::string& dtype) {
  return dtype == "auto" || dtype == "keep";
}

// Returns the format of a stack: the option's, the format that a run had, or the format of its
// tensors in the file.
const WeightFormat& wanted_format(const std::string& option, const ParamSpec& spec,
                                  const WeightSource& weights, const graph::Engine& engine,
                                  bool shrink) {
  if (!as_in_file(option)) return storage_format(spec, weight_format(option));
  const WeightFormat* own = nullptr; // the common format of its tensors
  bool same = true;
  for (int64_t layer = 0; layer < spec.copies(); ++layer) {
    for (const ParamPiece& piece : spec.pieces) {
      const WeightFormat* found = weights.format(spec.logical_name(piece, layer));
      if (layer == 0 && &piece == &spec.pieces.front()) own = found;
      same = same && found == own;
    }
  }
  const bool known = same && own != nullptr;
  if (known && engine_reads(engine, *own)) return storage_format(spec, *own);
  // The layers of the stack have several types, or a type without a lane loader. 8 bits lose little
  // of such types.
  if (weights.quantized() && !is_float(weights, spec)) {
    const WeightFormat& packed = weight_format("q8_0");
    if (engine_reads(engine, packed)) return storage_format(spec, packed);
  }
  if (shrink) return storage_format(spec, weight_format(DType::i8));
  return storage_format(spec, weight_format(DType::f32));
}

// Reports once into which formats an engine converts formats that it does not multiply, and the
// memory that it costs.
void report_converted(const graph::Engine& engine, const std::vector<ParamSpec>& specs,
                      const WeightSource& weights,
                      const std::function<const WeightFormat&(const ParamSpec&)>& form_of) {
  std::set<std::string> from, to;
  int64_t before = 0, after = 0;
  for (const ParamSpec& spec : specs) {
    const WeightFormat& kept = form_of(spec);
    bool converted = false;
    for (int64_t layer = 0; layer < spec.copies(); ++layer) {
      for (const ParamPiece& piece : spec.pieces) {
        const std::string name = spec.logical_name(piece, layer);
        const WeightFormat* found = weights.format(name);
        if (found == nullptr || engine_reads(engine, *found)) continue;
        converted = true;
        before += weights.file_bytes(name);
        from.insert(found->name);
      }
    }
    if (!converted) continue;
    after += weight_bytes(kept, spec.shape());
    to.insert(kept.name);
  }
  if (from.empty()) return;
  log(LogLevel::warn,
      "the {} engine does not multiply weights of format {}: they are kept as {}, {} instead of "
      "{}; "
      "the option dtype chooses another form",
      engine.kind(), fmt::join(from, ", "), fmt::join(to, ", "),
      memory_text(static_cast<double>(after)), memory_text(static_cast<double>(before)));
}

// Returns the text of a number's place in the whole tensor, from its index in the part.
std::string whole_place(const Shape& whole, const Box& box, int64_t at) {
  const BoxRuns runs(whole, box);
  return place_text(whole, runs.begin(at / runs.length()) + at % runs.length());
}

// Checks blocks as they are in the file, a few rows at a time.
void check_blocks(const std::string& name, const Tensor& blocks, const Shape& whole, const Box& box,
                  const Task* task) {
  const Shape numbers = number_shape(blocks.format(), blocks.shape());
  const int64_t width = numbers.dim(-1), rows = blocks.shape().dim(0);
  const int64_t step = std::max<int64_t>(1, (int64_t{1} << 20) / width);
  for (int64_t row = 0; row < rows; row += step) {
    const Tensor piece = dequantize(blocks.rows(row, std::min(rows, row + step)), {}, task);
    const int64_t at = first_non_finite(piece.reshaped(Shape{piece.count()}));
    if (at < 0) continue;
    fail_with_hint("set option check = off to load it anyway", Code::data_loss,
                   "tensor {} holds {} at {}", name, piece.as<float>()[static_cast<size_t>(at)],
                   whole_place(whole, box, row * width + at));
  }
}

// Checks a part of a tensor in the type of the file. The conversion after it finds the numbers in
// the cache.
void check_weight(const std::string& name, const Tensor& tensor, const Shape& whole, const Box& box,
                  const Task* task) {
  constexpr int64_t kPiece = int64_t{1} << 20; // numbers between two checks of the task
  const Tensor flat = tensor.reshaped(Shape{tensor.count()});
  int64_t at = -1;
  in_pieces(tensor.count(), kPiece, task, [&](int64_t begin, int64_t end) {
    const int64_t found = at < 0 ? first_non_finite(flat.rows(begin, end)) : -1;
    if (found >= 0) at = begin + found;
  });
  if (at < 0) return;
  float value;
  convert(tensor.dtype(), tensor.bytes() + at * dtype_size(tensor.dtype()), DType::f32, &value, 1);
  fail_with_hint("set option check = off to load it anyway", Code::data_loss,
                 "tensor {} holds {} at {}", name, value, whole_place(whole, box, at));
}

// The bytes of files that a task counts before and after those of one network.
struct OtherBytes {
  int64_t before = 0, later = 0;
};

// Reads parts of the tensors of one model into the forms that are uploaded.
class TensorReader {
public:
  TensorReader(const WeightSource& weights, bool checks, OtherBytes other, Task* task)
      : weights_(weights), checks_(checks), task_(task), other_(other) {}

  void add_total(const StackPart& part) {
    visit(part, [&](const std::string& name, size_t piece, int64_t) {
      total_ += bytes_of(name, part, piece);
    });
  }
  void read(ParamForm& form, const StackPart& part) {
    visit(part, [&](const std::string& name, size_t piece, int64_t layer) {
      check_task(task_);
      read_tensor(form, part, name, piece, layer);
      done_ += bytes_of(name, part, piece);
      if (task_ == nullptr) return;
      task_->set_progress(other_.before + std::min(done_, total_),
                          other_.before + total_ + other_.later);
    });
  }
  int64_t total() const { return total_; }

private:
  template <class Visit> static void visit(const StackPart& part, const Visit& look) {
    for (int64_t layer = 0; layer < part.spec.copies(); ++layer) {
      for (size_t piece = 0; piece < part.spec.pieces.size(); ++piece)
        look(part.spec.logical_name(part.spec.pieces[piece], layer), piece, layer);
    }
  }

  int64_t bytes_of(const std::string& name, const StackPart& part, size_t piece) const {
    const double share = static_cast<double>(part.boxes[piece].shape.count()) /
                         static_cast<double>(part.whole[piece].count());
    return static_cast<int64_t>(share * static_cast<double>(weights_.file_bytes(name)));
  }

  // Most tensors have the layout of the file and are read into their location directly.
  void read_tensor(ParamForm& form, const StackPart& part, const std::string& name, size_t piece,
                   int64_t layer) {
    const Box& box = part.boxes[piece];
    std::byte* place = form.place(part.spec, piece, layer);
    if (place != nullptr && form.format->is_blocks() && weights_.format(name) == form.format) {
      const Tensor blocks = weights_.read_blocks(name, box, place, task_);
      if (checks_) check_blocks(name, blocks, part.whole[piece], box, task_);
      return;
    }
    if (has_rows_of(form, part.spec.pieces[piece], name)) {
      const WeightSource::ScaledRows rows = weights_.read_rows(name, box, task_);
      if (checks_)
        check_weight(name, rows.scales, {part.whole[piece].dim(0)},
                     {{box.begin[0]}, {box.shape[0]}}, task_);
      return form.put_rows(part.spec, piece, layer, rows.values, rows.scales);
    }
    const bool direct = place != nullptr && !form.format->is_blocks() &&
                        weights_.dtype(name) == form.values.dtype();
    const Tensor tensor = direct ? weights_.read_part_to(name, box, place, task_)
                                 : weights_.read_part(name, box, task_);
    if (checks_) check_weight(name, tensor, part.whole[piece], box, task_);
    if (direct) return;
    if (checks_) check_number_range(name, tensor, *form.format, task_);
    form.put(part.spec, piece, layer, tensor, task_);
  }

  // Returns true when the file has int8 with scales of rows, which are kept as they are.
  bool has_rows_of(const ParamForm& form, const ParamPiece& piece, const std::string& name) const {
    return form.format->has_table() && !piece.transpose && !piece.between && !piece.stack &&
           weights_.format(name) == form.format;
  }

  const WeightSource& weights_;
  bool checks_;
  Task* task_;
  OtherBytes other_;
  int64_t total_ = 0, done_ = 0; // bytes of the files
};

// Loads each parameter in the format of the option. Where the option leaves it open, the format is
// the one that a run had (`run_formats`, by name) if the engine reads it, else the file's. Adds the
// bytes of the files to `count.before`.
void load_parameters(Model& model, const std::vector<ParamSpec>& specs, const WeightSource& weights,
                     const Options& options, const std::map<std::string, std::string>& run_formats,
                     OtherBytes& count, Task* task) {
  const std::string& dtype = options.str("dtype");
  if (!as_in_file(dtype)) expect_engine_reads(model.engine(), weight_format(dtype));
  const bool shrink = as_in_file(dtype) && weights.quantized() && f32_bytes(specs) > kLargestF32;
  const auto form_of = [&](const ParamSpec& spec) -> const WeightFormat& {
    const auto of_run = run_formats.find(spec.name);
    if (as_in_file(dtype) && of_run != run_formats.end()) {
      const WeightFormat& format = weight_format(of_run->second);
      if (engine_reads(model.engine(), format)) return storage_format(spec, format);
    }
    return wanted_format(dtype, spec, weights, model.engine(), shrink);
  };
  check_memory(model.engine(), specs, form_of);
  if (as_in_file(dtype)) report_converted(model.engine(), specs, weights, form_of);
  ParamStore& store = model.params();
  TensorReader reader(weights, store.checks(), count, task);
  const auto order = reserve_largest_first(model, specs, form_of);
  for (const auto& entry : order) reader.add_total(own_part(store, entry.first));
  const auto read = [&](ParamForm& form, const StackPart& part) { reader.read(form, part); };
  for (const auto& entry : order) fill_stack(store, entry.first, read, task);
  count.before += reader.total();
}

// Returns auto, keep, and the formats of the table.
std::vector<std::string> format_names() {
  std::vector<std::string> names = {"auto", "keep"};
  for (const WeightFormat* format : weight_formats()) names.emplace_back(format->name);
  return names;
}

} // namespace

Origin chosen_by(const Options& options) {
  Origin origin;
  origin.attention_chosen = options.str("attention") != "auto";
  origin.shift_chosen = options.i64("shift") >= 0;
  origin.mask_chosen = !options.str("mask_token").empty();
  return origin;
}

const Schema& model_schema() {
  static const Schema schema(
      "model",
      {option_choice(
           "dtype", "auto", format_names(),
           "Format in which weights are kept; auto: the format of the file. Layers of one matrix "
           "that differ in type, and types that products do not read, become q8_0. An engine that "
           "does not multiply a format keeps it as f32, from 1 GB on as int8, and says so in the "
           "log. Training converts trained weights to f32. keep: the same as auto, an older word."),
       option_choice("attention", "auto", {"auto", "causal", "bidirectional", "block_causal"},
                     "Attention of a token; auto: as the config says."),
       option_i64("shift", -1, -1, 1,
                  "1: the hidden state before a token predicts it; -1: as the config says."),
       option_str("mask_token", "",
                  "Token that stands for a masked one, its text or its id; empty: the token that "
                  "the model's files name."),
       option_choice("cache_dtype", "auto", {"auto", "f32", "bf16", "int8"},
                     "Form of K and V in decoding, cached or not; int8: with a scale per position "
                     "and head; auto: the form of the arithmetic, f32."),
       option_choice("check", "finite", {"finite", "off"},
                     "finite: a weight that is NaN or infinite is an error, when it is loaded or "
                     "set."),
       weights_option(),
       option_choice("heads", "auto", {"auto", "edit"},
                     "edit: heads that insert, delete and substitute tokens (edit flows) are added "
                     "where the file has none; auto: the heads of the file."),
       option_str(
           "adapter", "",
           "Folder of a LoRA adapter as PEFT saves it, also one inside the model's folder; it is "
           "decoded, trained and saved as adapter \"default\"; empty: none."),
       option_i64("seed", 0, 0, int64_t{1} << 53,
                  "Seed of the first weights of a new model, or of heads that are added.")});
  return schema;
}

ModelConfig read_config(const Source& source) {
  OpenedModel opened = open_model(source);
  return opened.config;
}

namespace {

// An adapter to add, opened before the weights, which take longer.
struct NamedAdapter {
  std::string name; // the part is "adapter:<name>"
  AdapterFile file;
};

std::vector<NamedAdapter> open_adapters(const std::vector<ckpt::ModelPlace::Adapter>& places,
                                        const std::string& option) {
  std::vector<NamedAdapter> adapters;
  const std::string added = AdapterOptions().name;
  for (const ckpt::ModelPlace::Adapter& place : places) {
    const bool is_named = place.name.starts_with(kAdapterPart);
    const std::string name = is_named ? place.name.substr(kAdapterPart.size()) : place.name;
    if (!option.empty() && name == added) {
      fail_with_hint("leave option adapter out, or load the base and the adapter",
                     Code::already_exists, "the run has an adapter named {} already", name);
    }
    adapters.push_back({name, AdapterFile(place.folder)});
  }
  if (!option.empty()) adapters.push_back({added, AdapterFile(option)});
  return adapters;
}

// Gives a base that a run used the settings that the run's objective chose.
void take_settings(const ckpt::ModelPlace::Use& use, ModelConfig& config) {
  const ModelConfig run = config_from_text(use.config, use.where);
  if (!use.has_new_mask && run.mask_token_id >= config.vocab_size) {
    fail_with_hint("load the base that the run had", Code::invalid_argument,
                   "{} names mask token {}, and this base has {} tokens", use.where,
                   run.mask_token_id, config.vocab_size);
  }
  config.attention = run.attention;
  config.shift = run.shift;
  if (!use.has_new_mask) config.mask_token_id = run.mask_token_id;
  config.block_length = run.block_length;
  config.next_token = false;
}

void take_side_files(Model& model, const Source& source) {
  for (const char* name : kSideFiles) {
    if (source.has(name)) model.set_side_file(name, source.open(name));
  }
}

bool has_new_mask(const ckpt::ModelPlace& place, const Options& options) {
  return place.use && place.use->has_new_mask && options.str("mask_token").empty();
}

// Adds the row of the mask token that the run of a checkpoint added to its base.
void add_new_mask(Model& model, const ckpt::ModelPlace::Use& use) {
  const int64_t wanted = config_from_text(use.config, use.where).mask_token_id;
  const int64_t made = model.ensure_mask_token();
  if (made == wanted) return;
  fail(Code::data_loss, "{} names mask token {}, but the base gets its mask token in row {}",
       use.where, wanted, made);
}

// A network whose files are open: the base of a model, or another network of a checkpoint.
class OpenedNetwork {
public:
  // `place` has the network as its base. The source outlives this object.
  OpenedNetwork(const graph::Engine& engine, const Source& source, const Options& options,
                const ckpt::ModelPlace& place, const std::string& part, Task* task)
      : source_(source), options_(options), place_(place), opened_(open_model(source)) {
    ModelConfig& config = opened_.config;
    if (place.use) take_settings(*place.use, config);
    if (!place.objective.empty()) config.objective = place.objective;
    apply_model_options(config, options);
    weights_ = find_edit_heads(
        chosen_weights(options.str("weights"), open_weights(opened_, source, task),
                       place.checkpoint, part),
        config, options.str("heads") == "edit", static_cast<uint64_t>(options.i64("seed")));
    specs_ = partitioned_params(config, engine.mesh());
    weights_->check(specs_);
  }

  int64_t bytes() const {
    int64_t bytes = 0;
    for (const ParamSpec& spec : specs_) {
      for (int64_t layer = 0; layer < spec.copies(); ++layer) {
        for (const ParamPiece& piece : spec.pieces)
          bytes += weights_->file_bytes(spec.logical_name(piece, layer));
      }
    }
    return bytes;
  }

  // Returns a model of this network alone, and adds the bytes of its files to `count.before`.
  std::shared_ptr<Model> load(const std::shared_ptr<graph::Engine>& engine, OtherBytes& count,
                              Task* task) {
    const auto model = std::make_shared<Model>(engine, opened_.config);
    model->set_origin(chosen_by(options_));
    model->params().set_checks(options_.str("check") == "finite");
    const auto formats =
        place_.reference ? place_.reference->formats : std::map<std::string, std::string>();
    graph::run_on_all(*engine, [&] { // each process reads its part
      load_parameters(*model, specs_, *weights_, options_, formats, count, task);
    });
    if (!opened_.gguf) take_side_files(*model, source_);
    resolve_mask_token(*model, options_.str("mask_token"), opened_.gguf.get());
    if (opened_.gguf) set_gguf_tokenizer(*model, source_);
    if (has_new_mask(place_, options_)) add_new_mask(*model, *place_.use);
    if (!place_.tokenizer.empty())
      take_side_files(*model, *ckpt::open_model_source(place_.tokenizer));
    return model;
  }

private:
  const Source& source_;
  const Options& options_;
  const ckpt::ModelPlace& place_;
  OpenedModel opened_;
  std::unique_ptr<WeightSource> weights_;
  std::vector<ParamSpec> specs_; // on the mesh of the engine
};

// A network of a checkpoint other than the base, opened before the weights of the base.
class OtherNetwork {
public:
  OtherNetwork(const graph::Engine& engine, const Options& options, const ckpt::ModelPlace& place,
               const ckpt::ModelPlace::Network& network, Task* task)
      : name_(network.name), options_(own_options(options)), place_(own_place(place, network)),
        source_(ckpt::open_model_source(network.folder)),
        opened_(engine, *source_, options_, place_, network.name, task) {}

  int64_t bytes() const { return opened_.bytes(); }
  void add_to(Model& model, OtherBytes& count, Task* task) {
    const std::shared_ptr<Model> own = opened_.load(model.engine_ref(), count, task);
    model.add_network(name_, *own);
    if (!place_.reference || options_.str("weights") != "live") return;
    std::optional<PartOrigin> origin = origin_at(place_.base);
    if (!origin || !origin->has_digest(place_.reference->digest))
      return; // the files changed meanwhile
    origin->has_new_mask = has_new_mask(place_, options_);
    model.set_origin_of(name_, *origin);
  }

private:
  // Leaves out the options that are about the base: these settings are those of the run.
  static Options own_options(const Options& given) {
    Options own(model_schema());
    for (const char* key : {"dtype", "cache_dtype", "check", "weights"})
      own.set_str(key, given.str(key));
    return own;
  }
  static ckpt::ModelPlace own_place(const ckpt::ModelPlace& place,
                                    const ckpt::ModelPlace::Network& network) {
    ckpt::ModelPlace own;
    own.base = network.folder;
    own.checkpoint = place.checkpoint;
    own.reference = network.reference;
    own.use = network.use;
    return own;
  }

  std::string name_;
  Options options_;
  ckpt::ModelPlace place_;
  std::unique_ptr<Source> source_;
  OpenedNetwork opened_; // refers to the members above
};

// Opens the networks that passes of a model may read. A teacher is left out.
std::vector<std::unique_ptr<OtherNetwork>> open_networks(const graph::Engine& engine,
                                                         const Options& options,
                                                         const ckpt::ModelPlace& place,
                                                         Task* task) {
  std::vector<std::unique_ptr<OtherNetwork>> networks;
  for (const ckpt::ModelPlace::Network& network : place.networks) {
    if (network.name != kTeacherPart)
      networks.push_back(std::make_unique<OtherNetwork>(engine, options, place, network, task));
  }
  return networks;
}

std::shared_ptr<Model> load_from(const std::shared_ptr<graph::Engine>& engine, const Source& source,
                                 const Options& options, const ckpt::ModelPlace& place,
                                 Task* task) {
  const store::TransferTask transfers(task);
  check_task(task);
  OpenedNetwork base(*engine, source, options, place, kBasePart, task);
  const std::vector<NamedAdapter> adapters = open_adapters(place.adapters, options.str("adapter"));
  const auto networks = open_networks(*engine, options, place, task);
  OtherBytes count;
  for (const NamedAdapter& adapter : adapters) count.later += adapter.file.bytes();
  for (const auto& network : networks) count.later += network->bytes();

  const std::shared_ptr<Model> model = base.load(engine, count, task);
  for (const NamedAdapter& adapter : adapters) {
    count.later -= adapter.file.bytes();
    adapter.file.add_to(*model, adapter.name, task, {count.before, count.later});
    count.before += adapter.file.bytes();
  }
  for (const auto& network : networks) {
    count.later -= network->bytes();
    network->add_to(*model, count, task);
  }
  return model;
}

// Fails when a part that a checkpoint refers to is not the one that its run read.
void check_part(const std::string& part, const std::string& path, const std::string& digest) {
  const std::optional<PartOrigin> found = origin_at(path);
  if (found && found->has_digest(digest)) return;
  fail_with_hint(
      "put the files back as they were, or load a base and give the checkpoint's adapter "
      "as option adapter",
      Code::failed_precondition, "the checkpoint refers to {} for part {}, which {}", path, part,
      found ? fmt::format("holds other numbers now: digest {}, and {} in the run", found->digest,
                          digest)
            : "cannot be read");
}

void check_references(const ckpt::ModelPlace& place) {
  if (place.reference) check_part(kBasePart, place.base, place.reference->digest);
  for (const ckpt::ModelPlace::Adapter& adapter : place.adapters) {
    if (adapter.is_reference()) check_part(adapter.name, adapter.folder, adapter.digest);
  }
  for (const ckpt::ModelPlace::Network& network : place.networks) {
    if (network.reference && network.name != kTeacherPart)
      check_part(network.name, network.folder, network.reference->digest);
  }
}

} // namespace

std::shared_ptr<Model> load_model(std::shared_ptr<graph::Engine> engine, const Source& source,
                                  const Options& options, Task* task) {
  return load_from(engine, source, options, {}, task);
}

namespace {

std::shared_ptr<Model> load_at(std::shared_ptr<graph::Engine> engine, const std::string& path,
                               const Options& options, Task* task) {
  ckpt::ModelPlace place = ckpt::model_place(path);
  const std::string& adapter = options.str("adapter");
  Options own = options;
  if (const std::string inside = join_path(place.base, adapter);
      !adapter.empty() && file_exists(join_path(inside, "adapter_config.json")))
    own.set_str("adapter", inside);
  check_references(place);
  if (!adapter.empty() && !place.use) read_use(own.str("adapter"), place);
  const bool is_live = options.str("weights") == "live";
  const auto before = is_live ? origin_at(place.base) : std::nullopt;
  std::shared_ptr<Model> model =
      load_from(engine, *ckpt::open_model_source(place.base), own, place, task);
  // Averages are not the numbers of the folder. A folder that changed meanwhile may hold other
  // numbers than those that were read.
  std::optional<PartOrigin> after = origin_at(place.base);
  if (!before || !after || before->digest != after->digest) return model;
  after->has_new_mask = has_new_mask(place, options);
  model->set_origin_of(kBasePart, *after);
  return model;
}

} // namespace

std::shared_ptr<Model> load_model(std::shared_ptr<graph::Engine> engine, const std::string& path,
                                  const Options& options, Task* task) {
  const store::TransferTask transfers(task);
  std::shared_ptr<Model> model;
  ckpt::read_latest(path, [&] { model = load_at(engine, path, options, task); });
  return model;
}

} // namespace dllm::model
