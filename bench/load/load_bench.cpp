// Rows a second of a dataset in each form: opening it (with tokenization where it is text) and
// taking batches.
//   bench_load [MEGABYTES [FILE.parquet]]     prints a table; files lie in the folder for temporary
//   files and are removed
// The last line is a loop of Python over the same JSON lines, which makes bytes of each text: a
// peer without arrays.
#include "../../tests/unit/text/data/gzip.h"
#include "../../tests/unit/text/scratch.h"
#include "../../tests/unit/text/tokenizer/byte_tokenizer.h"
#include "base/options.h"
#include "text/data/dataset.h"
#include "text/data/loader.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

using namespace dllm;
using namespace dllm::text;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void measure(const char* name, const std::string& path) {
  Options options(dataset_schema());
  options.set_str("rows", "line");
  auto start = std::chrono::steady_clock::now();
  const auto data = Dataset::open(path, make_byte_tokenizer(), options, nullptr);
  const double opened = static_cast<double>(data->size()) / seconds_since(start);
  Loader loader(data, Options(loader_schema()));
  int64_t sequences = 0;
  start = std::chrono::steady_clock::now();
  while (const auto batch = loader.try_next()) sequences += batch->at("ids").shape()[0];
  const double taken = static_cast<double>(sequences) / seconds_since(start);
  std::printf("%-10s %12.0f rows/s opened %12.0f sequences of 256 tokens/s\n", name, opened, taken);
}

// Rows a second of json.loads, line by line.
void measure_python(const std::string& path) {
  const std::string command =
      "python3 -c 'import json, sys, time; t = time.perf_counter(); "
      "n = sum(1 for line in open(sys.argv[1], encoding=\"utf-8\") "
      "if json.loads(line)[\"text\"].encode()); "
      "print(\"%-10s %12.0f rows/s opened\" % (\"python\", n / (time.perf_counter() - t)))' '" +
      path + "'";
  std::fflush(stdout);
  if (std::system(command.c_str()) != 0) std::printf("python     not run: no python3\n");
}

} // namespace

int main(int argc, char** argv) {
  const int64_t lines = (argc > 1 ? std::atoll(argv[1]) : 20) * 10000; // of 100 bytes
  Scratch scratch;
  std::string plain, json;
  for (int64_t i = 0; i < lines; ++i) {
    std::string line = "row " + std::to_string(i) + " ";
    while (line.size() < 99)
      line += static_cast<char>('a' + (i + static_cast<int64_t>(line.size())) % 26);
    plain += line + "\n";
    json += "{\"text\": \"" + line + "\"}\n";
  }
  const std::string text = scratch.write("rows.txt", plain);
  const std::string jsonl = scratch.write("rows.jsonl", json);
  const std::string tokens = scratch.path("rows.tok");
  Options options(dataset_schema());
  options.set_str("rows", "line");
  options.set_str("token_file", tokens);
  const auto start = std::chrono::steady_clock::now();
  Dataset::open(text, make_byte_tokenizer(), options, nullptr);
  std::printf("token file written in %.2f s\n", seconds_since(start));
  measure("text", text);
  measure("jsonl", jsonl);
  measure("jsonl.gz", scratch.write("rows.jsonl.gz", test::gzip(json)));
  measure("tokens", tokens);
  if (argc > 2) measure("parquet", argv[2]);
  measure_python(jsonl);
  return 0;
}
