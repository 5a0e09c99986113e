// A checkpoint folder with one damaged file, behind its checksum and with the checksum mended:
// opened, read, verified and restored. A restore that is refused leaves the trainer as it was.

#include "api/world.h"
#include "clients.h"

#include <nlohmann/json.hpp>
#include <zlib.h>

#include <map>

using namespace dllm::hostile;
using Json = nlohmann::ordered_json;

namespace {

struct Damage {
  bool sealed; // COMMIT has the size and checksum of the damaged file
  std::string name, bytes;
};

// "+model/config.json\n<bytes>": one text for the file that repeats a mutant.
std::string pack(const Damage& damage) {
  return (damage.sealed ? "+" : "-") + damage.name + "\n" + damage.bytes;
}
Damage unpack(const std::string& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  return {text[0] == '+', text.substr(1, end - 1), text.substr(std::min(end + 1, text.size()))};
}

std::string sealed_commit(const std::string& commit, const Damage& damage) {
  Json root = Json::parse(commit);
  for (Json& file : root.at("files")) {
    if (file.at("path") != damage.name) continue;
    file["size"] = damage.bytes.size();
    file["crc32"] = crc32(0, reinterpret_cast<const Bytef*>(damage.bytes.data()),
                          static_cast<uInt>(damage.bytes.size()));
  }
  return root.dump(1) + "\n";
}

Form form_of(const std::string& name) {
  return name.ends_with(".safetensors") ? Form::binary : Form::json;
}

// Mutants of each file go through the files' number by number, so `round` counts those of one file.
std::string mutant_of(const std::string& name, const std::string& bytes, uint64_t number,
                      uint64_t round) {
  if (form_of(name) == Form::binary && round % 2 == 0) return header_mutant(bytes, number);
  return mutant({bytes}, form_of(name), number);
}

double steps_of(dllm_trainer* trainer) {
  double step = -1;
  must(dllm_trainer_metric(trainer, "step", &step, shared_error()));
  return step;
}

} // namespace

int main(int count, char** arguments) {
  Harness harness("checkpoint", count, arguments,
                  {DLLM_NOT_FOUND, DLLM_DATA_LOSS, DLLM_FAILED_PRECONDITION, DLLM_UNIMPLEMENTED,
                   DLLM_RESOURCE_EXHAUSTED});
  world w{};
  open_world(&w, 1);
  dllm_trainer* trainer = make_trainer(w.model, "{\"ema\": 0.9}", w.err);
  dllm_loader* loader = make_loader(w.data, "{\"batch\": 2, \"length\": 16, \"epochs\": 0}", w.err);
  must(dllm_trainer_run(trainer, loader, 2, nullptr, nullptr, nullptr, shared_error()));
  const Folder folder;
  must(dllm_checkpoint_save(trainer, loader, folder.path().c_str(), nullptr, nullptr, nullptr,
                            shared_error()));
  const std::string dir = folder.path("step_000002");
  std::map<std::string, std::string> files;
  for (const char* name :
       {"COMMIT", "trainer.json", "state/layout.json", "state/rank_000.safetensors",
        "model/config.json", "model/model.safetensors"})
    files[name] = read_bytes(dir + "/" + name);
  must(dllm_trainer_run(trainer, loader, 1, nullptr, nullptr, nullptr,
                        shared_error())); // it is elsewhere now

  const auto apply = [&](const Damage& damage) {
    for (const auto& [name, bytes] : files) folder.write("step_000002/" + name, bytes);
    folder.write("step_000002/" + damage.name, damage.bytes);
    if (damage.sealed)
      folder.write("step_000002/COMMIT", sealed_commit(files.at("COMMIT"), damage));
  };
  const Feed look = [&](const std::string& text) {
    apply(unpack(text));
    return outcome([&] { read_weights(dir); });
  };
  const Feed restore = [&](const std::string& text) -> Outcome {
    apply(unpack(text));
    const double step = steps_of(trainer);
    const int64_t version = dllm_model_version(w.model), position = dllm_loader_position(loader);
    const Outcome made = outcome([&] {
      must(dllm_checkpoint_restore(trainer, loader, dir.c_str(), nullptr, shared_error()));
    });
    const bool kept = steps_of(trainer) == step && dllm_model_version(w.model) == version &&
                      dllm_loader_position(loader) == position;
    if (made.status != DLLM_OK && !kept)
      return {DLLM_INTERNAL, "refused, but the trainer is not as it was"};
    return made;
  };
  const auto make_mutant = [&](bool sealed) {
    return [&, sealed](uint64_t number) {
      auto file = files.begin();
      std::advance(file, static_cast<int64_t>(number % files.size()));
      if (sealed && file->first == "COMMIT") ++file;
      return pack({sealed, file->first,
                   mutant_of(file->first, file->second, number, number / files.size())});
    };
  };
  const std::string good = pack({false, "COMMIT", files.at("COMMIT")});
  harness.seed("look", good, look);
  harness.seed("restore", good, restore);
  harness.mutants("damaged file", make_mutant(false), look);
  harness.mutants("file and checksum", make_mutant(true), look);
  harness.mutants("damaged file, restored", make_mutant(false), restore);
  harness.mutants("file and checksum, restored", make_mutant(true), restore);
  harness.seed("restore at the end", good, restore);
  must(dllm_trainer_run(trainer, loader, 1, nullptr, nullptr, nullptr, shared_error()));
  harness.check(steps_of(trainer) == 3, "the trainer goes on from the good checkpoint");

  dllm_loader_release(loader);
  dllm_trainer_release(trainer);
  close_world(&w);
  return harness.finish();
}
