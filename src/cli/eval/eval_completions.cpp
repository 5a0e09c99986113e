#include "eval.h"

#include "../commands/decoding.h"

#include <span>

namespace dllm::cli {
namespace {

// Reads {"task_id", "completion"} lines; several lines of one task are its samples.
class FileCompletions final : public Completions {
public:
  explicit FileCompletions(const std::string& path) {
    const std::vector<EvalJson> rows = read_rows(path, 0);
    for (size_t i = 0; i < rows.size(); ++i)
      by_id_[id_of(rows[i], i)].push_back(text_of(rows[i], "completion", path, i));
  }
  bool from_model() const override { return false; }
  int64_t count(const std::string& id) const override {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? 0 : static_cast<int64_t>(found->second.size());
  }
  std::string get(const std::string& id, const std::string&, const std::string&,
                  int64_t sample) override {
    return by_id_.at(id)[static_cast<size_t>(sample)];
  }

private:
  std::map<std::string, std::vector<std::string>> by_id_;
};

class ModelCompletions final : public Completions {
public:
  explicit ModelCompletions(Context& context)
      : context_(context), samples_(context.number("samples")), session_(context) {
    choose_policy(context, session_);
    decoder_ = open_decoder(context, session_, false);
    ends_ = choose_ends(context, session_);
    seed_ = EvalJson::parse(context.option("slot", "seed")).get<int64_t>();
  }
  bool from_model() const override { return true; }
  int64_t count(const std::string&) const override { return samples_; }
  std::string get(const std::string&, const std::string& prompt, const std::string& suffix,
                  int64_t sample) override {
    Request request;
    request.canvas = encode(session_.tokenizer.get(), prompt);
    const size_t begin = request.canvas.size();
    std::vector<int32_t> behind;
    if (!suffix.empty()) {
      behind = encode(session_.tokenizer.get(), suffix);
      const size_t start = encode(session_.tokenizer.get(), "").size();
      behind.erase(behind.begin(), behind.begin() + static_cast<std::ptrdiff_t>(start));
      // Fails for a model without a mask token, which cannot fill a hole.
      const auto mask = static_cast<int32_t>(model_number(session_.model.get(), "mask_id"));
      const auto hole = static_cast<size_t>(
          context_.has("length")
              ? context_.number("length")
              : EvalJson::parse(context_.option("slot", "gen_length")).get<int64_t>());
      request.fixed.assign(begin, 1);
      request.fixed.insert(request.fixed.end(), hole, 0);
      request.fixed.insert(request.fixed.end(), behind.size(), 1);
      request.canvas.insert(request.canvas.end(), hole, mask);
      request.canvas.insert(request.canvas.end(), behind.begin(), behind.end());
    }
    call([&](dllm_error* err) {
      return dllm_options_set_i64(context_.options("slot"), "seed", seed_ + sample, err);
    });
    const int64_t slot = add_request(context_, decoder_.get(), request);
    call([&](dllm_error* err) {
      return dllm_decoder_run(decoder_.get(), nullptr, nullptr, context_.task(), err);
    });
    const Canvas canvas = canvas_of(decoder_.get(), slot);
    call([&](dllm_error* err) { return dllm_decoder_remove(decoder_.get(), slot, err); });
    // The suffix ends the answer; it is not part of its text.
    const size_t end = canvas.ids.size() - behind.size();
    Answer answer = continued_answer(session_.tokenizer.get(), static_cast<int64_t>(begin), ends_);
    answer.update(std::span(canvas.ids).first(end), std::span(canvas.states).first(end));
    return answer.text();
  }

private:
  Context& context_;
  int64_t samples_, seed_ = 0;
  std::vector<int32_t> ends_;
  Session session_;
  Owned<dllm_decoder> decoder_;
};

} // namespace

std::unique_ptr<Completions> completions_of(Context& context) {
  if (context.has("solutions")) return std::make_unique<FileCompletions>(context.text("solutions"));
  return std::make_unique<ModelCompletions>(context);
}

} // namespace dllm::cli
