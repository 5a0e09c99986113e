#pragma once
// One living object of every noun, made on first use through the public ABI alone.

#include <cstdint>
#include <map>
#include <string>

namespace sweep {

extern const char kConfig[]; // config.json of the smallest model that decodes

class Objects {
public:
  // Symbols come out of this library; files are made in the current folder.
  explicit Objects(void* library) : library_(library) {}

  // Ends the process with a line when the library does not have it.
  void* symbol(const std::string& name) const;
  // `variant`: the schema's kind for options, "raw" for a dataset without a tokenizer.
  void* object(const std::string& noun, const std::string& variant = "");
  // Forgets an object that a call has taken.
  void taken(const std::string& noun);
  // The address of an object that was released just now.
  void* released(const std::string& noun);

  void* event = nullptr; // set while a callback runs

private:
  using Maker = void* (Objects::*)();

  void* make(const std::string& noun, const std::string& variant);
  void* make_options(const char* kind);
  void* make_dataset(void* tokenizer);
  void* make_engine();
  void* make_tensor();
  void* make_source();
  void* make_model();
  void* make_tokenizer();
  void* make_loader();
  void* make_batch();
  void* make_answer();
  void* make_schedule();
  void* make_objective();
  void* make_trainer();
  void* make_decoder();
  void* make_generator();
  void* make_queue();
  void* make_checkpoint();
  void* make_lua();
  void* options_with(const char* kind, std::initializer_list<std::pair<const char*, int64_t>> keys);
  void check(int32_t status, const char* what);

  void* library_;
  std::map<std::string, void*> objects_;
};

} // namespace sweep
