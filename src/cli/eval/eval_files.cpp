#include "eval.h"

#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <sstream>

namespace dllm::cli {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;

std::string unzipped(const std::string& packed, const std::string& path) {
  z_stream stream = {};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) throw Failure(DLLM_RESOURCE_EXHAUSTED, "zlib");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  std::vector<char> block(size_t{1} << 16);
  int status = Z_OK;
  while (status == Z_OK && text.size() < kMostBytes) {
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    status = inflate(&stream, Z_NO_FLUSH);
    text.append(block.data(), block.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END)
    throw Failure(DLLM_DATA_LOSS, path + " is damaged gzip data", "is the download complete?");
  return text;
}

} // namespace

std::vector<EvalJson> read_rows(const std::string& path, int64_t limit) {
  std::string text = read_all(path);
  if (text.starts_with("\x1f\x8b")) text = unzipped(text, path);
  std::vector<EvalJson> rows;
  std::istringstream lines(text);
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (limit > 0 && static_cast<int64_t>(rows.size()) >= limit) break;
    EvalJson row = EvalJson::parse(line, nullptr, false);
    if (!row.is_object())
      throw Failure(DLLM_DATA_LOSS,
                    path + ":" + std::to_string(number) + ": the line is not a JSON object");
    rows.push_back(std::move(row));
  }
  if (rows.empty()) throw Failure(DLLM_INVALID_ARGUMENT, path + " holds no rows");
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
