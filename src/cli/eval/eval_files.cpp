#include "eval.h"

#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <memory>

namespace dllm::cli {
namespace {

// The lines of a file, which may be compressed with gzip. Only the line that is read is in memory.
class Lines {
public:
  explicit Lines(const std::string& path) : path_(path) {
    // A file of another kind is refused by read_all(), and standard input is read at once.
    if (!std::filesystem::is_regular_file(path)) {
      rest_ = read_all(path);
      return;
    }
    file_.reset(gzopen(path.c_str(), "rb"));
    if (file_ == nullptr) throw Failure(DLLM_PERMISSION_DENIED, "cannot read " + path);
  }

  // Returns false after the last line.
  bool next(std::string& line) {
    size_t end = rest_.find('\n', begin_);
    while (end == std::string::npos && fill()) end = rest_.find('\n', begin_);
    if (end == std::string::npos && begin_ == rest_.size()) return false;
    line = rest_.substr(begin_, end - begin_);
    begin_ = end == std::string::npos ? rest_.size() : end + 1;
    return true;
  }

private:
  // Reads more bytes after the rest of a line. Returns false at the end.
  bool fill() {
    if (file_ == nullptr) return false;
    constexpr size_t kBlock = size_t{1} << 16;
    rest_.erase(0, begin_);
    begin_ = 0;
    const size_t size = rest_.size();
    rest_.resize(size + kBlock);
    const int count = gzread(file_.get(), rest_.data() + size, kBlock);
    int status = Z_OK;
    gzerror(file_.get(), &status);
    if (count < 0 || status == Z_BUF_ERROR) // Z_BUF_ERROR: the file ends within the data
      throw Failure(DLLM_DATA_LOSS, path_ + " is damaged gzip data", "is the download complete?");
    rest_.resize(size + static_cast<size_t>(count));
    return count > 0;
  }

  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };
  std::string path_, rest_; // rest_: bytes that were read, from begin_ on not returned
  size_t begin_ = 0;
  std::unique_ptr<gzFile_s, Close> file_;
};

} // namespace

std::vector<EvalJson> read_rows(const std::string& path, int64_t limit) {
  std::vector<EvalJson> rows;
  Lines lines(path);
  int64_t number = 0;
  for (std::string line; lines.next(line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    EvalJson row = EvalJson::parse(line, nullptr, false);
    if (!row.is_object())
      throw Failure(DLLM_DATA_LOSS,
                    path + ":" + std::to_string(number) + ": the line is not a JSON object");
    rows.push_back(std::move(row));
    if (limit > 0 && static_cast<int64_t>(rows.size()) >= limit) break;
  }
  if (rows.empty()) throw Failure(DLLM_INVALID_ARGUMENT, path + " holds no rows");
  return rows;
}

std::vector<EvalJson> read_tasks(const std::string& path, int64_t limit) {
  std::vector<EvalJson> rows = read_rows(path, limit);
  std::map<std::string, size_t> row_of_id;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto [found, is_new] = row_of_id.emplace(id_of(rows[i], i), i);
    if (is_new) continue;
    throw Failure(DLLM_DATA_LOSS,
                  path + ": rows " + std::to_string(found->second + 1) + " and " +
                      std::to_string(i + 1) + " have the same task_id \"" + found->first + "\"",
                  "give each row its own task_id; a row without one has its number, from 0");
  }
  return rows;
}

EvalJson first_row(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) return nullptr; // a pipe is read once
  std::string line(size_t{1} << 20, '\0');
  const auto close = [](gzFile file) { gzclose(file); };
  const std::unique_ptr<gzFile_s, decltype(close)> file(gzopen(path.c_str(), "rb"), close);
  if (file == nullptr || gzgets(file.get(), line.data(), static_cast<int>(line.size())) == nullptr)
    return nullptr;
  EvalJson row = EvalJson::parse(line.c_str(), nullptr, false);
  return row.is_object() ? row : EvalJson();
}

std::string text_of(const EvalJson& row, const char* key, const std::string& path, size_t index) {
  const auto found = row.find(key);
  if (found != row.end() && found->is_string()) return found->get<std::string>();
  throw Failure(DLLM_DATA_LOSS,
                path + ": row " + std::to_string(index + 1) + " has no text \"" + key + "\"");
}

std::string id_of(const EvalJson& row, size_t index) {
  const auto found = row.find("task_id");
  if (found == row.end()) return std::to_string(index);
  return found->is_string() ? found->get<std::string>() : found->dump();
}

Mean mean_of(const std::vector<double>& numbers) {
  if (numbers.empty()) return {};
  const auto count = static_cast<double>(numbers.size());
  Mean mean;
  for (const double number : numbers) mean.value += number;
  mean.value /= count;
  double squares = 0;
  for (const double number : numbers) squares += (number - mean.value) * (number - mean.value);
  if (numbers.size() > 1) mean.error = std::sqrt(squares / (count - 1) / count);
  return mean;
}

double pass_at_k(int64_t n, int64_t c, int64_t k) {
  if (n - c < k) return 1;
  double none = 1;
  for (int64_t i = n - c + 1; i <= n; ++i)
    none *= 1 - static_cast<double>(k) / static_cast<double>(i);
  return 1 - none;
}

} // namespace dllm::cli
