#include "model/content_digest.h"

#include "base/sha256.h"
#include "model/model.h"
#include "text/data/dataset.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dllm::model {

std::string content_digest(const Model& model, const Task* task) {
  Sha256 hash;
  hash.add(config_to_json(model.config_now()).dump());
  for (const std::string& name : model.parts().names())
    hash.add(fmt::format("\n{} {}", name, model.parts().find(name)->scale));
  for (const ParamStore::Physical& entry : model.params().entries(task)) {
    if (!entry.is_of_base()) continue;
    const Tensor numbers = entry.buffer->read(task);
    hash.add(
        fmt::format("\n{} {} {} {:016x}", entry.name, entry.format->name, entry.shape.text(),
                    text::hash_bytes(numbers.bytes(), static_cast<size_t>(numbers.byte_size()))));
  }
  return hex(hash.finish()).substr(0, 16);
}

} // namespace dllm::model
