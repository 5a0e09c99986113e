#pragma once
// What the hub says of a repository and its files.

#include "base/http/http.h"
#include "hub/protocol/client.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::hub {

struct RemoteFile {
  std::string path;   // in the repository
  int64_t size = -1;  // bytes; -1: the list does not say
  std::string sha256; // "" for a small file, which git keeps
  // git's hash of the file, or of the pointer to a large one; "": the list does not say
  std::string blob_id = "";
};

struct Listing {
  std::string commit;
  std::vector<RemoteFile> files; // sorted by path
};

// Asks the hub for the files of a revision.
Listing list_files(const Client& client, const Task* task);
// Parses the response of the list. Fails with data_loss for any other text, and for a file whose
// path could leave its folder.
Listing parse_listing(std::string_view json, const std::string& what);

// What the head of a response says of one file.
struct FileFacts {
  std::string etag; // the name of the blob
  int64_t size = 0;
  std::string sha256; // the etag of a large file; else ""
};

// Asks the hub for the facts of a file of a commit. Fails with data_loss if the hub's list and its
// answer differ.
FileFacts ask_facts(const Client& client, const std::string& commit, const RemoteFile& file,
                    const Task* task);
// Returns an ETag without quotes and without the mark of a weak one.
std::string plain_etag(const std::string& header);
// Returns the ETag that names the blob: X-Linked-Etag, else ETag.
std::string etag_of(const http::HttpResponse& response);

} // namespace dllm::hub
