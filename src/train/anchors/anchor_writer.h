#pragma once
// Writes the anchors of the rows of a loader to a cache, which may be continued and shared.

#include "base/options.h"
#include "base/task.h"
#include "model/model.h"
#include "text/data/loader.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dllm::train {

// Writes a file for each chunk of one epoch of the loader that the folder lacks. Several processes
// may write one folder, each its shard. The call that finds the files of all chunks writes
// manifest.json. Equal calls write equal bytes, in any order and on any number of shards. options:
// of anchor_schema(). Progress counts rows. Returns the number of chunks that were written. The
// position of the loader stays. Fails as AnchorPass, with failed_precondition for a folder that was
// made with another teacher or options, and with invalid_argument for a loader of several ranks.
int64_t write_anchor_cache(text::Loader& loader, std::shared_ptr<model::Model> teacher,
                           const std::string& folder, const Options& options, Task* task);

} // namespace dllm::train
