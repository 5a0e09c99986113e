// Rows of data: a Parquet file, an array of JSON, a table of CSV, and JSON lines as a file that is
// opened, as one that gzip compressed and as documents that are added. What is accepted goes
// through a loader.

#include "clients.h"
#include "unit/text/data/gzip.h"

using namespace dllm::hostile;

namespace {

const char* const kLines =
    "{\"text\": \"the cat sat on the mat\"}\n"
    "{\"prompt\": \"the dog\", \"response\": \"sat on the log\"}\n"
    "{\"messages\": [{\"role\": \"user\", \"content\": \"the cat\"}, {\"role\": \"assistant\", "
    "\"content\": \"sat\"}]}\n"
    "{\"ids\": [1, 2, 3, 250], \"keep\": [1, 1, 0, 0]}\n"
    "{\"text\": \"w\\u00f6rld \\ud83d\\ude00\", \"more\": {\"a\": [1, null, true]}}\n";

// Batches with and without packing. The end of the data is DLLM_OUT_OF_RANGE.
void load_all(dllm_dataset* data) {
  for (const char* json : {R"({"batch": 2, "length": 7, "pack": true})",
                           R"({"batch": 2, "length": 7, "pack": false, "truncate": "left"})"}) {
    const Options opts = options_of("loader", json);
    const auto loader = make<Loader>(
        [&](auto** out) { return dllm_loader_new(data, opts.get(), out, shared_error()); });
    for (int i = 0; i < 100; ++i) {
      dllm_batch* batch = nullptr;
      const dllm_status status = dllm_loader_next(loader.get(), &batch, shared_error());
      dllm_batch_release(batch);
      if (status == DLLM_OUT_OF_RANGE) break;
      must(status);
    }
  }
}

} // namespace

int main(int count, char** arguments) {
  // FAILED_PRECONDITION: rows for a chat template that is not there, or a loader over no row.
  const std::string fixtures = arguments[1];
  Harness harness("jsonl", count - 1, arguments + 1,
                  {DLLM_INVALID_ARGUMENT, DLLM_NOT_FOUND, DLLM_DATA_LOSS, DLLM_FAILED_PRECONDITION,
                   DLLM_RESOURCE_EXHAUSTED, DLLM_UNIMPLEMENTED});
  const Folder folder;
  folder.write("tokenizer.json", tiny_tokenizer_json());
  folder.write("chat_template.jinja",
               "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}");
  const auto tokenizer = make<Tokenizer>([&](auto** out) {
    return dllm_tokenizer_load(folder.path().c_str(), nullptr, out, shared_error());
  });
  const auto open_as = [&](const char* name, const std::string& bytes) {
    return outcome([&] {
      const std::string path = folder.write(name, bytes);
      load_all(make<Dataset>([&](auto** out) {
                 return dllm_dataset_open(path.c_str(), tokenizer.get(), nullptr, nullptr, out,
                                          shared_error());
               }).get());
    });
  };
  const Feed open = [&](const std::string& bytes) { return open_as("x.jsonl", bytes); };
  const Feed array = [&](const std::string& bytes) { return open_as("x.json", bytes); };
  const Feed table = [&](const std::string& bytes) { return open_as("x.csv", bytes); };
  const Feed add = [&](const std::string& bytes) {
    return outcome([&] {
      const auto data = make<Dataset>([&](auto** out) {
        return dllm_dataset_new(tokenizer.get(), nullptr, out, shared_error());
      });
      for (size_t begin = 0; begin < bytes.size();) {
        const size_t end = std::min(bytes.find('\n', begin), bytes.size());
        must(dllm_dataset_add(data.get(), bytes.data() + begin, static_cast<int64_t>(end - begin),
                              shared_error()));
        begin = end + 1;
      }
      load_all(data.get());
    });
  };
  harness.seed("file", kLines, open);
  harness.seed("documents", kLines, add);
  const std::string objects = R"([{"instruction": "a", "input": "b", "output": "c"},
 {"conversations": [{"from": "human", "value": "q]"}, {"from": "gpt", "value": "a\""}]},
 {"data": ["q", "a"]}, {"prompt": "p", "completion": "c"}])";
  const std::string fields = "prompt,response\r\n\"a, \"\"b\"\"\nc\",d\r\ne,\"f\"\r\n";
  harness.seed("array", objects, array);
  harness.seed("table", fields, table);
  const std::string packed = dllm::test::gzip(kLines) + dllm::test::gzip(kLines);
  harness.seed("gzip", packed, open);
  const Make lines = [](uint64_t number) { return mutant({kLines}, Form::lines, number); };
  harness.mutants("file", lines, open);
  harness.mutants("documents", lines, add);
  harness.mutants(
      "array", [&](uint64_t number) { return mutant({objects}, Form::json, number); }, array);
  harness.mutants(
      "table", [&](uint64_t number) { return mutant({fields}, Form::binary, number); }, table);
  // Damage to the compressed bytes, and damaged lines that are compressed whole.
  harness.mutants(
      "gzip",
      [&](uint64_t number) {
        return number % 2 == 0 ? mutant({packed}, Form::binary, number)
                               : dllm::test::gzip(mutant({kLines}, Form::lines, number));
      },
      open);
  // Parquet: damage to the footer, to headers of pages and to pages with and without a compression.
  std::vector<std::string> columns;
  for (const char* name :
       {"messages-snappy", "messages-gzip-v2", "answer-delta_byte_array", "text-plain"})
    columns.push_back(read_bytes(fixtures + "/" + name + ".parquet"));
  for (const std::string& file : columns) harness.seed("parquet", file, open);
  harness.mutants(
      "parquet",
      [&](uint64_t number) {
        return mutant({columns[number % columns.size()]}, Form::binary, number);
      },
      open);
  return harness.finish();
}
