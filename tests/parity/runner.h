#pragma once
// What a handler works with: one topic (a folder with cases.json), its arrays and models, and the
// verdicts of its cases.
//
//   void run_norms(Topic& topic) {
//     for (const Json& entry : topic.list("cases")) {
//       topic.run(entry, [&](Case& c) {
//         c.close(topic.tolerance(entry), norm(c.array("x")), c.array("y"), "y");
//       });
//     }
//   }
//
// A list of objects that no handler asked for with list() gives one skip line. Throwing inside
// run() is a FAIL, an Error of Code::unimplemented or c.skip() a skip.

#include "base/json.h"
#include "base/options.h"
#include "ckpt/safetensors/safetensors.h"
#include "compare.h"
#include "graph/engine.h"
#include "pins.h"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace dllm::model {
class Model;
}

namespace dllm::parity {

class Topic;

// One case: any number of comparisons, one verdict. The worst comparison is the one printed.
class Case {
public:
  Case(Topic& topic, std::string name) : topic_(topic), name_(std::move(name)) {}

  // "<case name>.<array>" of the topic's files, or of the file the case names.
  const Tensor& array(const std::string& name) const;
  bool has(const std::string& name) const;
  // Arrays whose name starts so, without the case's name; and how many they are.
  std::vector<std::string> names(const std::string& start) const;
  int64_t count(const std::string& start) const;

  void close(Tolerance tolerance, const Tensor& got, const Tensor& want, const std::string& what,
             const Tensor& rows = {});
  void close(Tolerance tolerance, double got, double want, const std::string& what);
  void equal(const Tensor& got, const Tensor& want, const std::string& what) {
    close({}, got, want, what);
  }
  void equal(int64_t got, int64_t want, const std::string& what);
  void equal(const std::string& got, const std::string& want, const std::string& what);
  void check(bool holds, const std::string& what); // false: FAIL, saying what
  [[noreturn]] void skip(const std::string& why);
  // Marks the case as one that needs this downloaded file, and skips it when `there` is false.
  void needs_asset(const std::string& asset, bool there);

  Topic& topic() { return topic_; }
  // Prefix of array names; the case's name unless set.
  void set_prefix(std::string prefix) {
    prefix_ = std::move(prefix);
    has_prefix_ = true;
  }
  void set_file(std::string file) { file_ = std::move(file); }

private:
  friend class Topic;
  std::string key(const std::string& name) const;

  Topic& topic_;
  std::string name_, prefix_, file_, asset_;
  bool has_prefix_ = false;
  int64_t comparisons_ = 0;
  double worst_ratio_ = -1;
  Worst worst_;
  std::string note_; // of the worst, or of the first failure
  bool failed_ = false;
};

// Counts and prints.
class Report {
public:
  void line(const char* verdict, const std::string& name, const std::string& rest);
  TopicCounts total() const;
  Counts topics; // by label
};

// What all topics of one run share.
struct Session {
  Report report;
  std::string assets; // folder, may be missing
  Options engine_options{graph::engine_schema()};
  std::shared_ptr<graph::Engine> engine();

private:
  std::shared_ptr<graph::Engine> engine_;
};

class Topic {
public:
  Topic(Session& session, std::string folder);

  const std::string& folder() const { return folder_; }
  const std::string& name() const { return name_; }   // folder name: "models"
  const std::string& label() const { return label_; } // "torch/models"
  const Json& cases() const { return *cases_; }       // the whole cases.json
  // A list of cases of cases.json; an absent one is empty. Marks it as known.
  const Json& list(const std::string& key);
  void ignore(const std::string& key) {
    known_.insert(key);
  } // a list that holds no expected values

  // "atol", "rtol" of the case, else of the topic, else those given.
  Tolerance tolerance(const Json& entry, Tolerance otherwise = {}) const;

  // Arrays over all .safetensors files of the folder, or of one of them.
  bool has(const std::string& name, const std::string& file = {});
  const Tensor& array(const std::string& name, const std::string& file = {});
  std::vector<std::string> array_names(const std::string& file = {});

  // models/<name> in the folder's parent, then in the folders above it, three levels at most; ""
  // when absent.
  std::string model_folder(const std::string& name) const;
  // Loaded with dtype = f32; kept for the rest of the topic. Fails with not_found, or as
  // load_model.
  std::shared_ptr<model::Model> model(const std::string& name);
  std::string asset(const std::string& name) const; // path, or "" when it is not there
  std::shared_ptr<graph::Engine> engine() { return session_.engine(); }

  void run(const std::string& name, const std::function<void(Case&)>& body);
  void run(const Json& entry, const std::function<void(Case&)>& body); // name, file of the entry
  void skip(const std::string& name, const std::string& why);
  TopicCounts& counts() { return session_.report.topics[label_]; }

  // One skip line for every list of objects that was not requested.
  void skip_unknown_lists();
  // Arrays that were never read: an input or a result that no case is compared by.
  void count_unread_arrays();

private:
  Session& session_;
  std::string folder_, name_, label_;
  std::shared_ptr<const Json> cases_;
  std::set<std::string> known_;
  std::vector<std::pair<std::string, std::unique_ptr<ckpt::SafetensorsFile>>> files_;
  std::map<std::string, Tensor> arrays_;
  std::set<std::string> read_; // "<file>:<array>"
  std::map<std::string, std::shared_ptr<model::Model>> models_;
};

} // namespace dllm::parity
