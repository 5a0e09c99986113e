#include "train/anchors/anchor_writer.h"

#include "base/error.h"
#include "base/files.h"
#include "base/made_with.h"
#include "text/data/anchor_cache.h"
#include "train/anchors/anchor_pass.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace dllm::train {
namespace {

constexpr int64_t kRounding = 32; // widths of passes are multiples of it

// Returns the folders of chunks: those with two hexadecimal digits as their names.
std::vector<std::string> chunk_folders(const std::string& folder) {
  std::vector<std::string> made;
  for (const std::string& name : list_directory(folder)) {
    const bool is_hex = name.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (name.size() == 2 && is_hex && is_directory(join_path(folder, name)))
      made.push_back(join_path(folder, name));
  }
  return made;
}

// Returns true for the file of a chunk, also for one that a killed process left.
bool is_chunk_file(const std::string& name) {
  constexpr size_t kDigits = 16;
  return name.size() > kDigits && name.find_first_not_of("0123456789abcdef") == kDigits &&
         name.compare(kDigits, 12, ".safetensors") == 0;
}

void remove_chunks(const std::string& folder) {
  remove_all(text::anchor_manifest(folder));
  for (const std::string& chunks : chunk_folders(folder)) {
    for (const std::string& name : list_directory(chunks)) {
      if (is_chunk_file(name)) remove_all(join_path(chunks, name));
    }
    if (list_directory(chunks).empty()) remove_all(chunks);
  }
}

// Gives the folder its settings, or compares them with those that it has.
void begin_folder(const std::string& folder, const Json& settings, bool fresh, const Task* task) {
  make_directories(folder);
  const FolderLock lock(folder, task); // of two processes that begin, the second compares
  const std::string file = settings_path(join_path(folder, "anchors"));
  if (fresh) remove_chunks(folder);
  if (!fresh && (file_exists(file) || !chunk_folders(folder).empty()))
    check_settings(folder, file, settings);
  else
    write_settings(file, settings);
}

class Writing {
public:
  Writing(text::Loader& loader, AnchorPass& pass, std::string folder, const Options& options,
          Task* task)
      : loader_(loader), pass_(pass), folder_(std::move(folder)),
        batch_(static_cast<size_t>(loader.batch())), shard_(options.i64("shard")),
        shards_(options.i64("shards")), task_(task) {}

  int64_t run() {
    const int64_t rows = loader_.sequences();
    loader_.seek(0);
    for (int64_t done = 0; done < rows;) {
      const std::optional<Batch> batch = loader_.try_next();
      if (!batch) break;
      done += add_rows(*batch, rows - done);
      if (task_ != nullptr) task_->set_progress(std::min(done, rows), rows);
    }
    for (auto& [width, chunks] : waiting_) write(width, chunks);
    finish();
    return written_;
  }

private:
  int64_t add_rows(const Batch& batch, int64_t left) {
    const Tensor& ids = batch.at("ids");
    const int64_t seq = ids.shape()[1], rows = std::min(left, ids.shape()[0]);
    if (batch.global_rows(ids.shape()[0]).second != ids.shape()[0]) {
      fail_with_hint("set ranks to 1, and shards of the anchors", Code::invalid_argument,
                     "the rows of the loader are shared by several ranks");
    }
    Tensor whole(DType::i32, ids.shape()); // without segments all tokens see each other
    std::ranges::fill(whole.mutable_as<int32_t>(), 1);
    const Tensor* segments = batch.find("segments");
    const auto numbers = (segments == nullptr ? whole : *segments).as<int32_t>();
    for (int64_t row = 0; row < rows; ++row) {
      const auto at = static_cast<size_t>(row * seq), count = static_cast<size_t>(seq);
      for (const text::AnchorChunk& chunk : text::chunks_of(numbers.subspan(at, count)))
        add(ids.as<int32_t>().subspan(at + chunk.begin, chunk.end - chunk.begin));
    }
    return ids.shape()[0];
  }

  void add(std::span<const int32_t> ids) {
    const std::string key = text::anchor_key(ids);
    const auto number = std::ssize(keys_);
    if (!keys_.insert(key).second || number % shards_ != shard_) return;
    if (file_exists(text::anchor_path(folder_, key))) return;
    const int64_t width =
        std::min(loader_.length(), (std::ssize(ids) + kRounding - 1) / kRounding * kRounding);
    std::vector<std::vector<int32_t>>& chunks = waiting_[width];
    chunks.emplace_back(ids.begin(), ids.end());
    if (chunks.size() >= batch_) write(width, chunks);
  }

  void write(int64_t width, std::vector<std::vector<int32_t>>& chunks) {
    if (chunks.empty()) return;
    check_task(task_);
    std::vector<ckpt::NamedTensors> made = pass_.run(chunks, width, task_);
    for (size_t i = 0; i < chunks.size(); ++i)
      text::write_anchors(folder_, chunks[i], std::move(made[i]));
    written_ += std::ssize(chunks);
    chunks.clear();
  }

  // Writes the manifest when no chunk is missing, which other shards may still write.
  void finish() const {
    const bool is_whole = std::ranges::all_of(keys_, [&](const std::string& key) {
      return file_exists(text::anchor_path(folder_, key));
    });
    if (!is_whole) return;
    const FolderLock lock(folder_, task_); // two shards may both find that nothing is missing
    const model::ModelConfig& config = pass_.teacher().config();
    Json manifest{{"num_hidden_layers", config.layers},
                  {"hidden_size", config.hidden_size},
                  {"layers", pass_.layers()}};
    if (pass_.top() > 0) manifest["dllm"] = {{"top", pass_.top()}};
    write_file_atomic(text::anchor_manifest(folder_), manifest.dump(2) + "\n");
  }

  text::Loader& loader_;
  AnchorPass& pass_;
  std::string folder_;
  size_t batch_;
  int64_t shard_, shards_, written_ = 0;
  Task* task_;
  std::set<std::string> keys_;                                   // of all chunks so far
  std::map<int64_t, std::vector<std::vector<int32_t>>> waiting_; // by width of the pass
};

} // namespace

int64_t write_anchor_cache(text::Loader& loader, std::shared_ptr<model::Model> teacher,
                           const std::string& folder, const Options& options, Task* task) {
  if (options.i64("shard") >= options.i64("shards")) {
    fail(Code::invalid_argument, "shard is {}, expected less than {}", options.i64("shard"),
         options.i64("shards"));
  }
  AnchorPass pass(std::move(teacher), options);
  begin_folder(folder, pass.settings(task), options.boolean("fresh"), task);
  const int64_t before = loader.position();
  const int64_t written = Writing(loader, pass, folder, options, task).run();
  loader.seek(before);
  return written;
}

} // namespace dllm::train
