#include "hub/loading/transfer.h"

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/sha256.h"
#include "hub/cache/blob_lock.h"
#include "hub/loading/range_loader.h"

#include <memory>
#include <utility>

namespace dllm::hub {
namespace {

// The first bytes of a blob on the disk, with the state of their hash.
class Incomplete {
public:
  Incomplete(std::string path, Progress& progress, const Task* task)
      : path_(std::move(path)), progress_(progress), task_(task) {
    if (file_exists(path_)) {
      size_ = file_size(path_);
      hash_file();
      progress_.add(size_);
    }
    open(true);
  }

  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  void restart() {
    progress_.add(-size_);
    size_ = 0;
    hash_ = Sha256();
    open(false);
  }
  void add(std::string_view piece) {
    check_task(task_);
    const size_t written = file_->write(piece);
    size_ += static_cast<int64_t>(written);
    hash_.add(piece.substr(0, written));
    progress_.add(static_cast<int64_t>(written));
    if (written < piece.size()) fail_errno("write", path_);
  }
  // Returns the SHA-256 of the bytes. No byte is added afterwards.
  std::string digest() { return hex(hash_.finish()); }
  // Makes the bytes durable.
  void close() {
    file_.reset();
    sync_path(path_);
  }

private:
  void open(bool append) { file_ = std::make_unique<AppendFile>(path_, append); }
  void hash_file() {
    constexpr int64_t kPiece = int64_t{4} << 20;
    const InputFile file(path_);
    in_pieces(size_, kPiece, task_,
              [&](int64_t begin, int64_t end) { hash_.add(file.read(begin, end - begin).text()); });
  }

  std::string path_;
  Progress& progress_;
  const Task* task_; // may be null
  int64_t size_ = 0;
  Sha256 hash_;
  std::unique_ptr<AppendFile> file_;
};

// Loads the bytes of one blob that are missing.
class Transfer {
public:
  Transfer(RangeLoader loader, const std::string& incomplete, Progress& progress, const Task* task)
      : loader_(std::move(loader)), task_(task), bytes_(incomplete, progress, task),
        resumed_(bytes_.size() > 0) {}

  // Returns when the file has the size and the SHA-256 of the facts.
  void run() {
    // Without a SHA-256 nothing would show that the first bytes are another file's.
    if (bytes_.size() > facts().size || facts().sha256.empty()) bytes_.restart();
    load_rest();
    if (is_right()) return bytes_.close();
    if (!resumed_) fail_wrong();
    // Another program may have left bytes of other content.
    log(LogLevel::info, "{} is loaded again: its first bytes were wrong", loader_.shown());
    resumed_ = false;
    bytes_.restart();
    load_rest();
    if (!is_right()) fail_wrong();
    bytes_.close();
  }

private:
  const FileFacts& facts() const { return loader_.facts(); }

  void load_rest() {
    loader_.load(bytes_.size(), facts().size,
                 {.add = [this](std::string_view piece) { bytes_.add(piece); },
                  .restart = [this] { bytes_.restart(); }},
                 task_);
  }

  bool is_right() {
    digest_ = bytes_.digest();
    return facts().sha256.empty() || digest_ == facts().sha256;
  }

  [[noreturn]] void fail_wrong() {
    remove_all(bytes_.path());
    fail_with_hint("pull it again; if this repeats, the server's copy is damaged", Code::data_loss,
                   "{} has the SHA-256 {}, expected {}", loader_.shown(), digest_, facts().sha256);
  }

  const RangeLoader loader_;
  const Task* task_; // may be null
  Incomplete bytes_;
  bool resumed_; // the file had bytes before this transfer
  std::string digest_;
};

} // namespace

void load_file(const Client& client, const RepoCache& cache, const std::string& commit,
               const RemoteFile& file, Progress& progress, const Task* task) {
  const FileFacts facts = ask_facts(client, commit, file, task);
  const std::string blob = cache.blob(facts.etag), what = client.shown_file(file.path);
  make_directories(parent_path(blob));
  if (!file_exists(blob)) {
    const BlobLock lock(cache.lock(facts.etag), what, task);
    if (!file_exists(blob)) { // another process may have loaded it meanwhile
      RangeLoader loader(client, commit, file.path, facts);
      Transfer(std::move(loader), cache.incomplete(facts.etag), progress, task).run();
      rename_path(cache.incomplete(facts.etag), blob);
      return cache.link(commit, file.path, facts.etag);
    }
  }
  if (file_size(blob) != facts.size) {
    fail_with_hint(fmt::format("remove {}, and pull it again", blob), Code::data_loss,
                   "{} has {} bytes in the cache, expected {}", what, file_size(blob), facts.size);
  }
  progress.add(facts.size);
  cache.link(commit, file.path, facts.etag);
}

} // namespace dllm::hub
