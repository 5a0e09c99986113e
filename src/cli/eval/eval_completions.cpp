#include "eval.h"

#include "../commands/writing/text_run.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <set>

namespace dllm::cli {
namespace {

// Reads {"task_id", "completion"} lines; several lines of one task are its samples. A file of
// --out has these keys in the lines after its first.
class FileCompletions final : public Completions {
public:
  // data: the file of the tasks. Fails for a completion of a task that it does not have.
  FileCompletions(const std::string& path, const std::string& data) {
    std::vector<EvalJson> rows = read_rows(path, 0);
    const bool is_of_out = rows[0].contains("settings") && rows[0].contains("format");
    if (is_of_out) {
      rows.erase(rows.begin());
      for (EvalJson& row : rows) row["task_id"] = row.value("task", EvalJson());
      std::stable_sort(rows.begin(), rows.end(), [](const EvalJson& a, const EvalJson& b) {
        return a.value("sample", EvalJson()) < b.value("sample", EvalJson());
      });
    }
    for (size_t i = 0; i < rows.size(); ++i)
      by_id_[id_of(rows[i], i)].push_back(text_of(rows[i], "completion", path, i));
    check_tasks(path, data);
  }
  bool from_model() const override { return false; }
  EvalJson settings(const std::string&, const std::string&) override { return EvalJson::object(); }
  int64_t count(const std::string& id) const override {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? 0 : static_cast<int64_t>(found->second.size());
  }
  void expect(const std::string&, const std::string&, int64_t) override {}
  std::string get(const std::string& id, const std::string&, const std::string&,
                  int64_t sample) override {
    return by_id_.at(id)[static_cast<size_t>(sample)];
  }

private:
  void check_tasks(const std::string& path, const std::string& data) const {
    const std::vector<EvalJson> tasks = read_tasks(data, 0); // those beyond --limit too
    std::set<std::string> known;
    for (size_t i = 0; i < tasks.size(); ++i) known.insert(id_of(tasks[i], i));
    const auto is_unknown = [&](const auto& one) { return !known.contains(one.first); };
    const auto first = std::find_if(by_id_.begin(), by_id_.end(), is_unknown);
    if (first == by_id_.end()) return;
    const auto count = std::count_if(by_id_.begin(), by_id_.end(), is_unknown);
    throw Failure(DLLM_NOT_FOUND,
                  path + ": " + std::to_string(count) + " of " + std::to_string(by_id_.size()) +
                      " tasks are not in " + data + ": the first has task_id \"" + first->first +
                      "\"",
                  "a completion without a task_id is of the task with the number of its line, "
                  "from 0");
  }

  std::map<std::string, std::vector<std::string>> by_id_;
};

// Decodes completions as dllm generate does, several at a time.
class ModelCompletions final : public Completions {
public:
  explicit ModelCompletions(Context& context)
      : task_(context.task()), samples_(context.number("samples")), length_(length_of(context)),
        seed_(EvalJson::parse(context.option("slot", "seed")).get<int64_t>()), session_(context),
        batch_(context.number("batch")), run_(context, session_, batch_, false) {}
  bool from_model() const override { return true; }
  int64_t count(const std::string&) const override { return samples_; }

  EvalJson settings(const std::string& prompt, const std::string& suffix) override {
    const int64_t number = add(prompt, suffix, 0);
    const EvalJson request = run_.describe(number);
    run_.remove(number);
    EvalJson decoder = request.at("settings");
    for (const char* key : {"policy", "gen_length", "slots", "trace", "trace_bytes", "on_change"})
      decoder.erase(key); // listed above it, or without a meaning here
    return {{"samples", samples_},
            {"seed", request.at("seed")},
            {"length", length_},
            {"policy", request.at("policy")},
            {"end_tokens", request.at("end_tokens")},
            {"from_file", request.at("from_file").at("taken")},
            {"decoder", decoder}};
  }

  void expect(const std::string& prompt, const std::string& suffix, int64_t sample) override {
    expected_.push_back({prompt, suffix, sample});
  }

  // The arguments belong to the first text that is expected and was not returned yet.
  std::string get(const std::string&, const std::string&, const std::string& suffix,
                  int64_t) override {
    for (fill(); open_.front().decodes; fill()) {
      run_.step(task_);
      collect();
    }
    const Open first = std::move(open_.front());
    open_.pop_front();
    if (first.error) std::rethrow_exception(first.error);
    return suffix.empty() ? first.completion : first.hole;
  }

private:
  struct Expected {
    std::string prompt, suffix;
    int64_t sample;
  };
  // A request that decodes; then its texts, or the reason why it failed.
  struct Open {
    int64_t number = 0;
    bool decodes = false;
    std::string completion, hole;
    std::exception_ptr error;
  };

  // Adds requests until `batch` of them decode. Texts that are over wait for the first one, so
  // their number has a limit.
  void fill() {
    const auto decodes = [](const Open& one) { return one.decodes; };
    while (!expected_.empty() && static_cast<int64_t>(open_.size()) < 4 * batch_ &&
           std::count_if(open_.begin(), open_.end(), decodes) < batch_) {
      const Expected next = std::move(expected_.front());
      expected_.pop_front();
      Open& one = open_.emplace_back();
      try {
        one.number = add(next.prompt, next.suffix, next.sample);
        one.decodes = true;
      } catch (const Failure& failure) {
        if (failure.status() == DLLM_CANCELLED) throw;
        one.error = std::current_exception();
      }
    }
  }

  // Takes the texts of requests that are over, and removes the requests.
  void collect() {
    for (Open& one : open_) {
      if (!one.decodes || !run_.is_over(one.number)) continue;
      one.decodes = false;
      try {
        one.completion = run_.text(one.number, "completion"); // fails as the request did
        const EvalJson request = run_.describe(one.number);
        if (request.contains("holes") && !request.at("holes").empty())
          one.hole = request.at("holes").at(0).get<std::string>();
      } catch (const Failure&) {
        one.error = std::current_exception();
      }
      run_.remove(one.number);
    }
  }

  static int64_t length_of(const Context& context) {
    return context.has("length")
               ? context.number("length")
               : EvalJson::parse(context.option("slot", "gen_length")).get<int64_t>();
  }

  // Adds a request for the text between prompt and suffix, or after the prompt.
  int64_t add(const std::string& prompt, const std::string& suffix, int64_t sample) {
    const int64_t seed = seed_ + sample;
    if (suffix.empty())
      return run_.add({{"prompt", prompt}, {"length", length_}, {"seed", seed}}, task_);
    if ((prompt + suffix).find("<mask") != std::string::npos) {
      throw Failure(DLLM_INVALID_ARGUMENT, "a task with a suffix contains the text <mask",
                    "score completions of this task with --solutions FILE");
    }
    const std::string text = prompt + "<mask:" + std::to_string(length_) + ">" + suffix;
    return run_.add({{"infill", text}, {"length", nullptr}, {"seed", seed}}, task_);
  }

  dllm_task* task_;
  int64_t samples_, length_, seed_;
  std::deque<Expected> expected_;
  std::deque<Open> open_; // in the order in which they are returned
  Session session_;
  int64_t batch_;
  TextRun run_;
};

} // namespace

std::unique_ptr<Completions> completions_of(Context& context) {
  if (context.has("solutions"))
    return std::make_unique<FileCompletions>(context.text("solutions"), context.text("data"));
  return std::make_unique<ModelCompletions>(context);
}

} // namespace dllm::cli
