#include "hub/protocol/listing.h"

#include "base/error.h"
#include "base/json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <set>

namespace dllm::hub {
namespace {

constexpr size_t kMostFiles = 100'000;

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t size_at(const Json& object) {
  const auto found = object.find("size");
  const bool fits = found != object.end() && found->is_number_integer() &&
                    found->get<int64_t>() >= 0 && !found->is_number_float();
  return fits ? found->get<int64_t>() : -1;
}

RemoteFile parse_file(const Json& entry, const std::string& what) {
  RemoteFile made;
  if (entry.is_object()) made.path = text_at(entry, "rfilename");
  if (!is_safe_path(made.path)) {
    fail(Code::data_loss, "{} lists a file named \"{}\", which no folder can hold", what,
         printable(made.path));
  }
  made.size = size_at(entry);
  made.blob_id = text_at(entry, "blobId");
  const auto large = entry.find("lfs");
  if (large == entry.end() || !large->is_object()) return made;
  made.sha256 = text_at(*large, "sha256");
  if (!is_sha256(made.sha256)) made.sha256.clear();
  if (const int64_t size = size_at(*large); size >= 0) made.size = size;
  return made;
}

// Returns a size of a header, or -1.
int64_t size_of_header(const std::string& text) {
  int64_t size = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  return error == std::errc() && end == text.data() + text.size() && size >= 0 ? size : -1;
}

// The name of a blob is the name of a file, so it has letters, digits, '-', '_' and '.' alone.
bool is_blob_name(const std::string& text) {
  const auto fits = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.';
  };
  // Such names belong to transfers of other blobs.
  if (text.ends_with(".incomplete") || text.ends_with(".lock")) return false;
  return !text.empty() && text.size() <= 128 && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), fits);
}

} // namespace

Listing parse_listing(std::string_view json, const std::string& what) {
  const Json list = parse_json(json, "the list of " + what);
  Listing made;
  if (list.is_object()) made.commit = text_at(list, "sha");
  if (!is_commit(made.commit))
    fail(Code::data_loss, "the hub sent a list of {} without a commit", what);
  const auto files = list.find("siblings");
  if (files == list.end() || !files->is_array())
    fail(Code::data_loss, "the hub sent a list of {} without files", what);
  if (files->size() > kMostFiles) {
    fail(Code::out_of_range, "{} has {} files, more than {}", what, files->size(), kMostFiles);
  }
  std::set<std::string> paths;
  for (const Json& entry : *files) {
    made.files.push_back(parse_file(entry, what));
    if (!paths.insert(made.files.back().path).second)
      fail(Code::data_loss, "{} lists the file {} twice", what, made.files.back().path);
  }
  std::sort(made.files.begin(), made.files.end(),
            [](const RemoteFile& a, const RemoteFile& b) { return a.path < b.path; });
  return made;
}

Listing list_files(const Client& client, const Task* task) {
  Request request;
  request.method = "GET";
  request.path = client.list_path();
  request.silent_attempts = 2;
  return parse_listing(client.send(request, task).body, shown(client.name()));
}

std::string plain_etag(const std::string& header) {
  std::string tag = header.starts_with("W/") ? header.substr(2) : header;
  std::erase(tag, '"');
  return tag;
}

std::string etag_of(const http::HttpResponse& response) {
  const std::string linked = response.header("x-linked-etag");
  return plain_etag(linked.empty() ? response.header("etag") : linked);
}

FileFacts ask_facts(const Client& client, const std::string& commit, const RemoteFile& file,
                    const Task* task) {
  Request request;
  request.method = "HEAD";
  request.path = client.file_path(commit, file.path);
  request.file = file.path;
  request.ends_at_link = true;
  const http::HttpResponse response = client.send(request, task);
  const std::string what = client.shown_file(file.path);
  FileFacts made;
  made.etag = etag_of(response);
  if (!is_blob_name(made.etag)) {
    fail_with_hint("set HF_ENDPOINT to a server that sends the ETag of each file", Code::data_loss,
                   "the hub sent no usable ETag of {}, but \"{}\"", what, printable(made.etag));
  }
  if (is_sha256(made.etag)) made.sha256 = made.etag;
  const std::string linked = response.header("x-linked-size");
  if (!linked.empty())
    made.size = size_of_header(linked);
  else // a redirect has the length of its own body
    made.size = response.is_success() ? size_of_header(response.header("content-length")) : -1;
  if (made.size < 0) made.size = file.size;
  if (made.size < 0) fail(Code::data_loss, "the hub sent no size of {}", what);
  const std::string found = response.header("x-repo-commit");
  const bool is_changed = (!found.empty() && found != commit) ||
                          (file.size >= 0 && file.size != made.size) ||
                          (!file.sha256.empty() && file.sha256 != made.etag);
  if (!is_changed) return made;
  fail_with_hint(
      "pull it again; if this repeats, HF_ENDPOINT is a server with mixed content", Code::data_loss,
      "{} is not the file of the list: {} bytes, ETag {}, commit {}; expected {} bytes{}, "
      "commit {}",
      what, made.size, made.etag, found.empty() ? "unknown" : printable(found), file.size,
      file.sha256.empty() ? "" : ", SHA-256 " + file.sha256, commit);
}

} // namespace dllm::hub
