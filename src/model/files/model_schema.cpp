#include "model/files/weights.h"
#include "model/model.h"

#include <string>
#include <vector>

namespace dllm::model {
namespace {

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
           "that differ in type, and types that products do not read, become q8_0. Training "
           "converts trained weights to f32. keep: the same as auto, an older word."),
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
} // namespace dllm::model
