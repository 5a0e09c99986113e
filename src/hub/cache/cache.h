#pragma once
// The folder of one repository in the cache, as huggingface_hub lays it out:
//
//   models--ORG--NAME/blobs/ETAG                  the content of a file
//   models--ORG--NAME/refs/REVISION               the commit of a branch or tag
//   models--ORG--NAME/snapshots/COMMIT/FILE       a link to ../../blobs/ETAG
//   models--ORG--NAME/trees/COMMIT.json           the list of the files of a commit
//   .locks/models--ORG--NAME/ETAG.lock            held by the process that loads the blob

#include "hub/name.h"

#include <optional>
#include <string>

namespace dllm::hub {

class RepoCache {
public:
  RepoCache(std::string root, const Name& name);

  const std::string& folder() const { return folder_; }
  std::string blob(const std::string& etag) const;
  std::string incomplete(const std::string& etag) const; // the first bytes of a blob
  std::string lock(const std::string& etag) const;
  std::string snapshot(const std::string& commit) const;
  std::string file(const std::string& commit, const std::string& path) const;
  std::string tree(const std::string& commit) const;

  // Returns the commit of a revision that was pulled, or nothing.
  std::optional<std::string> commit_of(const std::string& revision) const;
  // Keeps the commit of a branch or tag.
  void write_ref(const std::string& revision, const std::string& commit) const;
  // Makes the file of a snapshot from a blob that is there.
  void link(const std::string& commit, const std::string& path, const std::string& etag) const;

private:
  std::string root_, folder_;
};

// "models--ORG--NAME" and "datasets--ORG--NAME"
std::string folder_name(const Name& name);
// Returns the repository of such a folder, or nothing.
std::optional<Name> name_of_folder(std::string_view folder);
// Returns the repository and the commit of a path in a snapshot, or nothing. The path need not
// exist.
std::optional<Name> name_of_snapshot(const std::string& path);

} // namespace dllm::hub
