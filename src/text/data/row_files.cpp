#include "text/data/row_files.h"

#include "base/files.h"
#include "hub/name.h"
#include "text/readers/readers.h"

namespace dllm::text {

const hub::DataSet* RowFiles::data_set_of(const std::string& path) {
  if (!hub::is_address(path)) return nullptr;
  hub::Name name = hub::parse_address(path);
  name.file.clear();
  return &sets_.try_emplace(hub::address_of(name), name, task_).first->second;
}

std::string RowFiles::place_of(const std::string& path) {
  const hub::DataSet* data = data_set_of(path);
  if (data == nullptr || !hub::parse_address(path).file.empty()) return path;
  return data->address(data->top_folder());
}

bool RowFiles::is_folder(const std::string& path) {
  const hub::DataSet* data = data_set_of(path);
  return data != nullptr ? data->is_folder(hub::parse_address(path).file) : is_directory(path);
}

std::vector<std::string> RowFiles::list(const std::string& path) {
  const hub::DataSet* data = data_set_of(path);
  if (data == nullptr) return list_record_files(path);
  std::vector<std::string> files;
  for (const hub::RemoteFile& file : data->files_at(hub::parse_address(path).file))
    files.push_back(data->address(file.path));
  return files;
}

} // namespace dllm::text
