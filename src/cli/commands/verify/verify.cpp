// dllm verify checks files for damage without changing them, and prints a line per check.

#include "../../command.h"
#include "../../options/names.h"
#include "../train/training.h"
#include "verify_against.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

enum class Verdict { ok, note, bad };
constexpr const char* kVerdicts[] = {"ok", "note", "bad"};

// Prints each check when it is made, and collects the checks for --json.
class Report {
public:
  explicit Report(bool json)
      : json_(json), colour_(isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr) {}

  void add(Verdict verdict, const std::string& what, const std::string& detail) {
    const auto index = static_cast<size_t>(verdict);
    ++counts_[index];
    checks_.push_back({{"check", what}, {"verdict", kVerdicts[index]}, {"detail", detail}});
    if (json_) return;
    constexpr const char* kColours[] = {"\x1b[32m", "\x1b[33m", "\x1b[1;31m"};
    std::printf("%s%-4s%s  %-34s %s\n", colour_ ? kColours[index] : "", kVerdicts[index],
                colour_ ? "\x1b[0m" : "", what.c_str(), detail.c_str());
    std::fflush(stdout);
  }
  void ok(const std::string& what, const std::string& detail) { add(Verdict::ok, what, detail); }
  void bad(const std::string& what, const std::string& detail) { add(Verdict::bad, what, detail); }
  void note(const std::string& what, const std::string& detail) {
    add(Verdict::note, what, detail);
  }

  int finish(const std::string& path) const {
    const int64_t bad = counts_[2];
    if (json_) {
      const Json all = {{"path", path}, {"ok", bad == 0}, {"checks", checks_}};
      std::printf("%s\n", all.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
    } else if (bad == 0) {
      std::printf("%s is whole: %zu checks\n", path.c_str(), checks_.size());
    } else {
      std::printf("%s is damaged: %lld of %zu checks failed\n", path.c_str(),
                  static_cast<long long>(bad), checks_.size());
    }
    return bad == 0 ? 0 : kFailed;
  }

private:
  bool json_, colour_;
  Json checks_ = Json::array();
  int64_t counts_[3] = {};
};

std::string mib(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, bytes < 1048576 ? "%.1f KiB" : "%.1f MiB",
                bytes < 1048576 ? bytes / 1024 : bytes / 1048576);
  return text;
}

// Runs a check. A failure of the library, JSON of another shape and an error of the file system are
// bad.
template <class F> void attempt(Report& report, const std::string& what, F&& f) {
  try {
    f();
  } catch (const Failure& failure) {
    if (failure.status() == DLLM_CANCELLED) throw;
    report.bad(what, failure.what());
  } catch (const nlohmann::json::exception&) {
    report.bad(what, "is JSON of another shape than expected");
  } catch (const fs::filesystem_error& error) {
    report.bad(what, error.code().message());
  }
}

void stop_when_cancelled(const Context& context) {
  if (dllm_task_is_cancelled(context.task()) != 0) throw Failure(DLLM_CANCELLED, "interrupted");
}

// Checks COMMIT of a checkpoint, which names every file with its size and CRC-32.
// Returns whether no file is damaged.
bool check_commit(const Context& context, Report& report, const fs::path& folder) {
  bool whole = false;
  const std::string shown = folder.filename().string() + "/";
  attempt(report, shown + "COMMIT", [&] {
    const Json found = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_checkpoint_check(folder.c_str(), context.task(), out, err);
    }));
    report.ok(shown + "COMMIT", std::to_string(found.at("files").size()) + " files of step " +
                                    std::to_string(found.at("step").get<int64_t>()));
    whole = true;
    for (const Json& file : found.at("files")) {
      const std::string name = shown + file.at("path").get<std::string>();
      const auto fault = file.at("fault").get<std::string>();
      char checksum[24];
      std::snprintf(checksum, sizeof checksum, "crc32 %08x", file.at("crc32").get<uint32_t>());
      if (fault.empty())
        report.ok(name, mib(file.at("size").get<double>()) + ", " + checksum);
      else
        report.bad(name, fault);
      whole = whole && fault.empty();
    }
    for (const Json& path : found.at("unlisted"))
      report.note(shown + path.get<std::string>(), "is not in COMMIT");
  });
  return whole;
}

struct Figures {
  int64_t values = 0, nan = 0, infinite = 0;
};

Figures figures_of(const dllm_tensor* tensor) {
  Figures figures;
  int64_t count = 1;
  for (int64_t axis = 0; axis < dllm_tensor_rank(tensor); ++axis)
    count *= dllm_tensor_dim(tensor, axis);
  std::vector<float> values(static_cast<size_t>(count));
  call([&](dllm_error* err) {
    return dllm_tensor_read(tensor, DLLM_F32, values.data(),
                            static_cast<int64_t>(values.size() * sizeof(float)), err);
  });
  figures.values = count;
  for (float value : values) {
    figures.nan += std::isnan(value) ? 1 : 0;
    figures.infinite += std::isinf(value) ? 1 : 0;
  }
  return figures;
}

// Checks headers, ranges and the numbers.
void check_weights(const Context& context, Report& report, const std::string& path) {
  attempt(report, "weights", [&] {
    const auto file = open_checkpoint(context, path);
    call([&](dllm_error* err) { return dllm_checkpoint_verify(file.get(), context.task(), err); });
    const Json about = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_checkpoint_describe(file.get(), out, err);
    }));
    report.ok("weights", std::to_string(about.at("tensors").size()) + " tensors, " +
                             mib(about.at("bytes").get<double>()) + ", every one inside its file");
    Figures all;
    for (const Json& row : about.at("tensors")) {
      stop_when_cancelled(context);
      const auto name = row.at("name").get<std::string>();
      attempt(report, name, [&] {
        const auto tensor = make<dllm_tensor>([&](dllm_tensor** out, dllm_error* err) {
          return dllm_checkpoint_tensor(file.get(), name.c_str(), out, err);
        });
        const int32_t dtype = dllm_tensor_dtype(tensor.get());
        if (dtype != DLLM_F32 && dtype != DLLM_F16 && dtype != DLLM_BF16 && dtype != DLLM_F64)
          return;
        const Figures own = figures_of(tensor.get());
        all.values += own.values;
        all.nan += own.nan;
        all.infinite += own.infinite;
        if (own.nan + own.infinite == 0) return;
        report.bad(name, std::to_string(own.nan) + " NaN and " + std::to_string(own.infinite) +
                             " infinite of " + std::to_string(own.values) + " numbers");
      });
    }
    if (all.nan + all.infinite == 0)
      report.ok("numbers", std::to_string(all.values) + ", all finite");
  });
}

// A text with capitals, accents, other scripts, an emoji, spaces and a line break.
constexpr const char* kSample =
    "The wise man said: 3 caf\u00e9s, \u6771\u4eac \U0001F642\n  two  spaces";

void check_tokenizer(const Context& context, Report& report, const std::string& path,
                     int64_t vocab) {
  attempt(report, "tokenizer", [&] {
    Owned<dllm_tokenizer> tokenizer;
    try {
      tokenizer = open_tokenizer(context, path);
    } catch (const Failure& failure) {
      if (failure.status() != DLLM_NOT_FOUND) throw;
      return report.note("tokenizer", failure.what());
    }
    const int64_t size = dllm_tokenizer_size(tokenizer.get());
    if (vocab >= 0 && size > vocab) {
      throw Failure(DLLM_DATA_LOSS,
                    "has " + std::to_string(size) + " tokens, the model " + std::to_string(vocab));
    }
    const auto ids = encode(tokenizer.get(), kSample);
    const std::string once = decode(tokenizer.get(), ids);
    const std::string figures =
        std::to_string(size) + " tokens, a sample of " + std::to_string(ids.size()) + " tokens ";
    if (once.find(kSample) != std::string::npos)
      return report.ok("tokenizer", figures + "is decoded unchanged");
    // A tokenizer that lower-cases or strips accents changes a text only the first time.
    if (decode(tokenizer.get(), encode(tokenizer.get(), once)) == once)
      return report.note("tokenizer",
                         figures + "is decoded normalized: " +
                             Json(once).dump(-1, ' ', false, Json::error_handler_t::replace));
    throw Failure(DLLM_DATA_LOSS,
                  figures + "is decoded as " +
                      Json(once).dump(-1, ' ', false, Json::error_handler_t::replace));
  });
}

// A .gguf file, a checkpoint, or a folder with config.json or with .gguf files.
bool is_model(const fs::path& path) {
  const auto is_gguf = [](const fs::path& file) { return file.extension() == ".gguf"; };
  if (!fs::is_directory(path)) return is_gguf(path);
  return fs::exists(path / "config.json") || fs::exists(path / "trainer.json") ||
         std::any_of(fs::directory_iterator(path), fs::directory_iterator(),
                     [&](const auto& entry) { return is_gguf(entry.path()); });
}

// Loads the model, which compares every tensor's shape with config.json and finds missing tensors.
int64_t check_model(const Context& context, Report& report, const std::string& path) {
  int64_t vocab = -1;
  if (!is_model(path)) {
    report.note("shapes", "the model has no config.json to compare with");
    return vocab;
  }
  attempt(report, "shapes", [&] {
    const auto engine = open_engine(context);
    const auto model = open_model(context, engine.get(), path);
    vocab = model_number(model.get(), "vocab");
    report.ok("shapes",
              std::to_string(dllm_model_param_count(model.get())) + " parameters as in the config");
  });
  return vocab;
}

void check_model_folder(const Context& context, Report& report, const std::string& path) {
  check_weights(context, report, path);
  const int64_t vocab = check_model(context, report, path);
  if (fs::is_directory(path) || fs::path(path).extension() == ".gguf")
    check_tokenizer(context, report, path, vocab);
}

// Returns the step_* folders of a run, oldest first.
std::vector<fs::path> checkpoints_of(const fs::path& run) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(run)) {
    const std::string name = entry.path().filename();
    if (entry.is_directory() && name.rfind("step_", 0) == 0) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void check_run(const Context& context, Report& report, const std::vector<fs::path>& checkpoints) {
  std::string newest;
  for (const fs::path& folder : checkpoints) {
    if (folder.extension() == ".partial" || folder.extension() == ".trash") {
      report.note(folder.filename().string(),
                  RunLock::is_held(folder.parent_path())
                      ? "is being written or removed by the training that runs there"
                      : "was left by a writer that was killed; the next save removes it");
      continue;
    }
    // The weights of a damaged checkpoint are read file by file.
    const bool whole = check_commit(context, report, folder);
    newest = whole || !fs::exists(folder / "model") ? folder : folder / "model";
  }
  if (newest.empty())
    report.bad("checkpoints", "the run has no finished checkpoint");
  else
    check_model_folder(context, report, newest);
}

int verify(Context& context) {
  check_engine(context);
  refuse_typed(context, "model", "seed", "it is for a new model");
  check_against(context);
  if (context.has("against")) return verify_against(context);
  for (const char* key : {"attention", "shift", "mask_token", "cache_dtype"}) {
    refuse_typed(context, "model", key, "this command loads the model and computes nothing");
  }
  std::string path = context.text("path");
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (is_in_store(path)) {
    throw Failure(DLLM_UNIMPLEMENTED, "verify reads local files: " + path,
                  "dllm inspect --verify " + shell_word(path) +
                      " compares the checksums of a checkpoint");
  }
  if (!fs::exists(path)) throw Failure(DLLM_NOT_FOUND, "there is no file or folder " + path);
  Report report(context.json());
  const std::vector<fs::path> checkpoints =
      fs::is_directory(path) ? checkpoints_of(path) : std::vector<fs::path>();
  const bool is_begun = fs::exists(path + "/run.json") && !fs::exists(path + "/config.json");
  if (!checkpoints.empty() || is_begun) {
    check_run(context, report, checkpoints);
  } else if (fs::is_directory(path) &&
             (fs::exists(path + "/COMMIT") ||
              fs::path(path).filename().string().rfind("step_", 0) == 0)) {
    check_run(context, report, {path});
  } else {
    check_model_folder(context, report, path);
  }
  return report.finish(path);
}

} // namespace

Command verify_command() {
  using Kind = Argument::Kind;
  std::vector<Argument> arguments = {
      {Kind::positional, "path", "",
       "a run, a checkpoint or a model folder, a safetensors or GGUF file", true}};
  for (Argument& argument : against_arguments()) arguments.push_back(std::move(argument));
  return {
      "verify",
      "check that a run, a checkpoint or a model is whole, or the loss of precision by a weight "
      "format",
      "dllm verify runs/quickstart\n"
      "  One line per check: ok, note (worth knowing) or bad. Exit code 1 when anything is bad.\n"
      "dllm verify quickstart.gguf --against f32 --reference runs/quickstart --arithmetic int8 "
      "--format keep\n"
      "  How far the predictions are from the reference's in f32.",
      std::move(arguments),
      {"engine", "model"},
      verify};
}

} // namespace dllm::cli
