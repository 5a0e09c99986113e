#include "generation.h"

#include "base/named_table.h"
#include "cpu/engine.h"

#include <string>
#include <utility>

namespace dllm::abi {
namespace {

using generate::TextPart;

struct PartRow {
  const char* name;
  TextPart part;
};
constexpr PartRow kParts[] = {{"completion", TextPart::completion},
                              {"text", TextPart::whole},
                              {"next", TextPart::next},
                              {"canvas", TextPart::canvas}};

} // namespace

ModelWithTokenizer load_with_tokenizer(const char* path, dllm_engine* engine,
                                       const dllm_options* model_opts, dllm_task* task) {
  const FileTask own(task);
  const Options of_model = options_of(model_opts, "model");
  const std::string from = need_place(path);
  dllm_engine* given = optional(engine, "engine");
  const auto on = given != nullptr ? given->object : cpu::make_engine(Options(schema_of("engine")));
  Options starts(schema_of("tokenizer"));
  starts.set_i64("add_start", 1);
  auto tokenizer = text::Tokenizer::load(from, starts); // its errors come sooner
  return {model::load_model(on, from, of_model, own.get()), std::move(tokenizer)};
}

TextPart text_part(const char* name) {
  return need_named(kParts, need_text(name, "part"), &PartRow::name, {"part", "of a text"}).part;
}

} // namespace dllm::abi
