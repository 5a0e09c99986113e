// Before a client exists: options, the environment, where plugins lie.

#include "pjrt/plugin/plugin.h"

#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdlib>

namespace dllm::pjrt {
namespace {

using test::expect_error;

TEST(ClientOptions, AreTyped) {
  const NamedValues values = parse_client_options(
      {"cpu_device_count=8", "preallocate=false", "memory_fraction=0.9", "allocator=bfc",
       "visible_devices=0:2", "later:i64=-3", "also_later:string=a=b"});
  EXPECT_EQ(*find_value<int64_t>(values, "cpu_device_count"), 8);
  EXPECT_EQ(*find_value<bool>(values, "preallocate"), false);
  EXPECT_EQ(*find_value<float>(values, "memory_fraction"), 0.9f);
  EXPECT_EQ(*find_value<std::string>(values, "allocator"), "bfc");
  EXPECT_EQ(*find_value<std::vector<int64_t>>(values, "visible_devices"),
            (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(*find_value<int64_t>(values, "later"), -3);
  EXPECT_EQ(*find_value<std::string>(values, "also_later"), "a=b");
  EXPECT_EQ(find_value<int64_t>(values, "allocator"), nullptr);
}

TEST(ClientOptions, RefuseWhatWouldAbortAPlugin) {
  expect_error(Code::invalid_argument, "eight is not a number",
               [] { parse_client_options({"cpu_device_count=eight"}); });
  expect_error(Code::invalid_argument, " is not a number",
               [] { parse_client_options({"cpu_device_count="}); });
  expect_error(Code::invalid_argument, "maybe is neither true nor false",
               [] { parse_client_options({"preallocate=maybe"}); });
  expect_error(Code::invalid_argument, "is not name=value", [] { parse_client_options({"=8"}); });
  expect_error(Code::invalid_argument, "int is not a type",
               [] { parse_client_options({"later:int=8"}); });
  const Error unknown = test::error_of([] { parse_client_options({"cpu_device_cont=8"}); });
  EXPECT_EQ(unknown.code(), Code::not_found);
  EXPECT_EQ(unknown.hint(), "did you mean cpu_device_count? an option of a newer plugin needs its "
                            "type: cpu_device_cont:i64=1");
}

TEST(NamedValues, SurviveTheWayToAPluginAndBack) {
  const NamedValues values{{"a", int64_t{1}},
                           {"b", std::string("x")},
                           {"c", true},
                           {"d", 0.5f},
                           {"e", std::vector<int64_t>{3, 4}}};
  const auto view = named_value_views(values);
  EXPECT_EQ(read_named_values(view.data(), view.size()), values);
  EXPECT_EQ(value_text(values.at("e")), "[3, 4]");
}

// Sets a variable for the length of a test; null removes it.
class Variable {
public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~Variable() { had_ ? ::setenv(name_, old_.c_str(), 1) : ::unsetenv(name_); }

private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

TEST(Environment, LeavesWhatTheUserSet) {
  const Variable log("TF_CPP_MIN_LOG_LEVEL", "0"), lock("ALLOW_MULTIPLE_LIBTPU_LOAD", nullptr),
      hosts("TPU_WORKER_HOSTNAMES", nullptr), mds("TPU_SKIP_MDS_QUERY", nullptr);
  prepare_environment(false);
  EXPECT_STREQ(std::getenv("TF_CPP_MIN_LOG_LEVEL"), "0");
  EXPECT_EQ(std::getenv("ALLOW_MULTIPLE_LIBTPU_LOAD"), nullptr);
  prepare_environment(true);
  EXPECT_STREQ(std::getenv("ALLOW_MULTIPLE_LIBTPU_LOAD"), "1");
  EXPECT_STREQ(std::getenv("TPU_SKIP_MDS_QUERY"), "1");
}

TEST(Environment, FindsTpusOnTheBus) {
  const test::TempFolder bus;
  const auto add = [&](const char* slot, const char* vendor, const char* device) {
    make_directories(bus.path(slot));
    write_file_atomic(bus.path(std::string(slot) + "/vendor"), std::string(vendor) + "\n");
    write_file_atomic(bus.path(std::string(slot) + "/device"), std::string(device) + "\n");
  };
  EXPECT_FALSE(has_tpu(bus.path("none")));
  add("0000:00:01.0", "0x8086", "0x0063");
  add("0000:00:02.0", "0x1ae0", "0x0042"); // the vendor's network card
  EXPECT_FALSE(has_tpu(bus.path()));
  add("0000:00:03.0", "0x1ae0", "0x0063");
  EXPECT_TRUE(has_tpu(bus.path()));
}

TEST(FindPlugin, LooksInFoldersAndPackages) {
  const test::TempFolder folder;
  const Variable plugins("DLLM_PLUGINS", folder.path().c_str()), home("HOME", nullptr),
      venv("VIRTUAL_ENV", folder.path("venv").c_str()), path("PATH", "/nowhere"),
      pyenv("PYENV_ROOT", nullptr);
  EXPECT_EQ(find_plugin("/some/where.so"), "/some/where.so");
  const Error missing = test::error_of([] { find_plugin("tpu"); });
  EXPECT_EQ(missing.code(), Code::not_found);
  EXPECT_NE(missing.text().find("libtpu/libtpu.so is in " + folder.path()), std::string::npos)
      << missing.text();
  EXPECT_NE(missing.hint().find("pip install libtpu"), std::string::npos);

  const std::string packages = folder.path("venv/lib/python3.11/site-packages/libtpu");
  make_directories(packages);
  write_file_atomic(packages + "/libtpu.so", "x");
  EXPECT_EQ(find_plugin("tpu"), packages + "/libtpu.so");
  write_file_atomic(folder.path("libtpu.so"), "x");
  EXPECT_EQ(find_plugin("tpu"), folder.path("libtpu.so"));

  expect_error(Code::invalid_argument, "there is no platform named \"gpu\"",
               [] { find_plugin("gpu"); });
  expect_error(Code::invalid_argument, "needs a plugin", [] { find_plugin(""); });
}

// pip belongs to the python3 of PATH, which under pyenv is a script that starts one of its
// versions.
TEST(FindPlugin, LooksInThePythonsOfPathAndOfPyenv) {
  const test::TempFolder folder;
  const std::string shims = folder.path("pyenv/shims"), bin = folder.path("mine/bin");
  const Variable plugins("DLLM_PLUGINS", nullptr), home("HOME", nullptr),
      venv("VIRTUAL_ENV", nullptr), path("PATH", (shims + ":" + bin).c_str()),
      pyenv("PYENV_ROOT", folder.path("pyenv").c_str());
  const auto add = [&](const std::string& prefix) {
    const std::string packages = folder.path(prefix + "/lib/python3.12/site-packages/libtpu");
    make_directories(packages);
    write_file_atomic(packages + "/libtpu.so", "x");
    return packages + "/libtpu.so";
  };
  const std::string of_pyenv = add("pyenv/versions/3.12.1"), of_path = add("mine");
  EXPECT_EQ(find_plugin("tpu"), of_pyenv); // there is no python3 in mine/bin
  make_directories(bin);
  write_file_atomic(bin + "/python3", "x");
  EXPECT_EQ(find_plugin("tpu"), of_path);
}

TEST(Plugin, SaysWhyAFileIsNone) {
  const test::TempFolder folder;
  expect_error(Code::not_found, "does not exist", [&] { Plugin::load(folder.path("no.so")); });
  write_file_atomic(folder.path("text.so"), "not a library");
  expect_error(Code::unavailable, "it is not an ELF file",
               [&] { Plugin::load(folder.path("text.so")); });
  write_file_atomic(folder.path("cut.so"), std::string("\177ELF\2\1\1") + std::string(200, '\1'));
  expect_error(Code::unavailable, "it is not a shared library",
               [&] { Plugin::load(folder.path("cut.so")); });
  make_directories(folder.path("folder.so"));
  expect_error(Code::unavailable, "it is not a regular file",
               [&] { Plugin::load(folder.path("folder.so")); });
  expect_error(Code::unavailable, "is not a PJRT plugin: it has no GetPjrtApi",
               [] { Plugin::load("/lib/x86_64-linux-gnu/libm.so.6"); });
}

// tests/unit/pjrt/writes_when_loaded.cpp writes the file that this variable names.
TEST(Plugin, NothingRunsInAFileThatIsNone) {
  const test::TempFolder folder;
  const std::string mark = folder.path("ran");
  const Variable variable("WRITES_WHEN_LOADED", mark.c_str());
  expect_error(Code::unavailable, "is not a PJRT plugin: it has no GetPjrtApi",
               [] { Plugin::load(WRITES_WHEN_LOADED_PATH); });
  EXPECT_FALSE(file_exists(mark)) << "the constructor of a library that is no plugin ran";
  // Loaded for real, the constructor does write the file.
  void* library = ::dlopen(WRITES_WHEN_LOADED_PATH, RTLD_NOW);
  EXPECT_TRUE(file_exists(mark));
  if (library != nullptr) ::dlclose(library);
}

} // namespace
} // namespace dllm::pjrt
