// A checkpoint folder out of any bytes: looked at, verified and restored into a small trainer, or
// an Error. A restore that fails leaves the trainer where it was.
//
// Byte 0: bit 0 writes a COMMIT that fits the files. Then files: a byte that names the file, two
// bytes of size (little-endian), its content. Size 0 leaves the file of a good checkpoint there,
// 65535 takes it away.

#include "base/error.h"
#include "base/files.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "ckpt/weights_on_disk.h"
#include "train/checkpoint/checkpoint.h"
#include "train/trainer.h"
#include "unit/train/tiny.h"

#include <zlib.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

namespace {

using namespace dllm;
using namespace dllm::train;

constexpr const char* kFiles[] = {"COMMIT",
                                  "trainer.json",
                                  "state/layout.json",
                                  "state/rank_000.safetensors",
                                  "model/config.json",
                                  "model/model.safetensors"};

struct World {
  World() : trainer(tiny_trainer({{"ema", 0.8}})) {
    std::string pattern =
        (::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") + std::string("/dllm_fuzz_XXXXXX");
    root = ::mkdtemp(pattern.data());
    std::atexit([] { remove_all(world().root); });
    TextSource source;
    trainer->run(source, 1);
    folder = save_checkpoint(*trainer, &source, root, Options(checkpoint_schema()));
    for (const char* name : kFiles) good[name] = read_text(join_path(folder, name));
  }
  static World& world() {
    static World* made =
        new World; // the folder is removed at exit; the trainer ends with the process
    return *made;
  }

  std::unique_ptr<Trainer> trainer;
  std::string root, folder;
  std::map<std::string, std::string> good;
};

std::map<std::string, std::string> files_of(const uint8_t* data, size_t size) {
  std::map<std::string, std::string> files = World::world().good;
  for (size_t at = 1; at + 3 <= size;) {
    const std::string name = kFiles[data[at] % std::size(kFiles)];
    const size_t wanted = data[at + 1] | static_cast<size_t>(data[at + 2]) << 8;
    at += 3;
    const size_t length = std::min(wanted, size - at);
    if (wanted == 65535)
      files.erase(name);
    else if (wanted > 0)
      files[name].assign(reinterpret_cast<const char*>(data + at), length);
    at += length;
  }
  if ((data[0] & 1) == 0) return files;
  ckpt::Commit commit;
  commit.step = 1;
  for (const auto& [name, content] : files) {
    if (name == ckpt::kCommitName) continue;
    const uLong sum =
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
    commit.files.push_back(
        {name, static_cast<int64_t>(content.size()), static_cast<uint32_t>(sum)});
  }
  files[ckpt::kCommitName] = ckpt::commit_text(commit);
  return files;
}

template <class F> bool attempt(F&& call) {
  try {
    call();
    return true;
  } catch (const Error& error) {
    if (error.code() == Code::internal || error.text().empty()) std::abort();
    return false;
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  World& world = World::world();
  for (const char* name : kFiles) ::unlink(join_path(world.folder, name).c_str());
  for (const auto& [name, content] : files_of(data, size))
    std::ofstream(join_path(world.folder, name), std::ios::binary) << content;

  attempt([&] { ckpt::latest_checkpoint(world.root); });
  attempt([&] {
    const ckpt::WeightsOnDisk weights(world.folder);
    const Json described = weights.describe();
    for (const Json& row : described.at("tensors"))
      attempt([&] { weights.tensor(row.at("name").get<std::string>()); });
  });
  attempt([&] {
    model::load_model(tiny_engine(), join_path(world.folder, "model"),
                      Options(model::model_schema()));
  });
  const int64_t step = world.trainer->steps_done(),
                version = world.trainer->trained_model().params().version();
  const bool restored = attempt([&] { restore_checkpoint(*world.trainer, nullptr, world.folder); });
  const bool same = world.trainer->steps_done() == step &&
                    world.trainer->trained_model().params().version() == version;
  if (!restored && !same) std::abort();
  return 0;
}
