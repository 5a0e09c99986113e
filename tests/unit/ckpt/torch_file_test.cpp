// Files of torch.save: the fixtures of tests/data/make_torch_bin.py, and hand-made ones that no
// PyTorch writes.

#include "ckpt/torch/torch_file.h"

#include "unit/ckpt/safetensors_bytes.h"
#include "unit/ckpt/zip_bytes.h"
#include "unit/test_files.h"

namespace dllm::ckpt {
namespace {

using test::expect_error;
using namespace std::string_literals;

std::string fixture(const std::string& name) {
  return read_text(test::data_path("torch_bin/" + name));
}
TorchFile open_fixture(const std::string& name) {
  return {test::own_bytes(fixture(name)), name};
}

void expect_same(const WeightFile& torch, const std::string& expected_name) {
  const SafetensorsFile expected(test::own_bytes(fixture(expected_name)), expected_name);
  ASSERT_EQ(torch.tensors().size(), expected.tensors().size());
  for (const auto& [name, info] : expected.tensors()) {
    const Tensor want = expected.tensor(name), view = torch.tensor(name);
    EXPECT_EQ(torch.info(name).type, info.type) << name;
    ASSERT_EQ(view.shape(), want.shape()) << name;
    const auto size = static_cast<size_t>(want.byte_size());
    if (size == 0) continue; // no bytes, perhaps no address
    EXPECT_EQ(std::memcmp(view.bytes(), want.bytes(), size), 0) << name;
    const Tensor copy = torch.tensor_copy(name);
    EXPECT_EQ(std::memcmp(copy.bytes(), want.bytes(), size), 0) << name;
  }
}

TEST(TorchFile, ReadsEveryTypeViewAndSharedStorage) {
  expect_same(open_fixture("types.bin"), "expected.safetensors");
  expect_same(open_fixture("types_protocol_4.bin"), "expected.safetensors");
  expect_same(open_fixture("module.bin"), "module.safetensors");
}

TEST(TorchFile, ReadsFromDisk) {
  const std::string path = test::data_path("torch_bin/types.bin");
  expect_same(TorchFile(open_content(path), "types.bin"), "expected.safetensors");
}

TEST(TorchFile, OpensWhatTransformersSaved) {
  const std::string folder = test::golden_path("models/torch-qwen2-bin-tiny");
  DLLM_NEEDS_FILE(folder);
  const WeightFiles weights(*open_source(folder));
  EXPECT_STREQ(weights.format(), "pytorch");
  EXPECT_GT(weights.names().size(), 10u);
  for (const std::string& name : weights.names()) EXPECT_TRUE(weights.tensor(name).defined());
}

TEST(TorchFile, RefusesWhatIsNoTensorByName) {
  const auto refuse = [](const char* name, const char* part) {
    expect_error(Code::unimplemented, part, [&] { open_fixture(name); });
  };
  refuse("evil_system.bin", "evil_system.bin: the pickle names the global posix.system at byte ");
  refuse("evil_module.bin",
         "the pickle names the global torch.nn.modules.container.Sequential at byte ");
  refuse("number.bin", "number.bin: step is not a tensor");
  refuse("before_1_6.bin", "is not a ZIP file; a bare pickle");
  refuse("expanded.bin", "tensor w (1000) repeats the numbers of a storage of 1");
}

// Every cut and every flipped byte of a good file: an error or numbers, never more.
TEST(TorchFile, SurvivesEveryCutAndFlippedByte) {
  const std::string good = fixture("module.bin");
  const auto numbers_of = [](const std::string& bytes) { // empty: it is refused
    std::string numbers;
    try {
      const TorchFile file(test::own_bytes(bytes), "x");
      for (const auto& entry : file.tensors()) {
        const Tensor tensor = file.tensor_copy(entry.first);
        numbers += entry.first + std::string(reinterpret_cast<const char*>(tensor.bytes()),
                                             static_cast<size_t>(tensor.byte_size()));
      }
    } catch (const Error&) {
      return std::string();
    }
    return numbers;
  };
  const std::string expected = numbers_of(good);
  ASSERT_FALSE(expected.empty());
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_EQ(numbers_of(good.substr(0, size)), "") << size;
  size_t opened = 0; // those whose byte is padding
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0xFF);
    const std::string found = numbers_of(bad);
    EXPECT_TRUE(found.empty() || found == expected) << i;
    opened += found.empty() ? 0u : 1u;
  }
  EXPECT_GT(opened, 0u);
  EXPECT_LT(opened, good.size());
}

// ---- by hand ----

TorchFile of_pickle(const std::string& pickle, const test::ZipOptions& options = {}) {
  return {test::own_bytes(
              test::zip_bytes({{"a/data.pkl", pickle}, {"a/data/0", "abcdefgh"s}}, options)),
          "x.bin"};
}
std::string word(const std::string& text) {
  return "X"s + static_cast<char>(text.size()) + "\0\0\0"s + text;
}
// {"w": a tensor over u8 storage 0}
std::string tensor_pickle(const std::string& offset, const std::string& shape,
                          const std::string& strides, const std::string& elements = "K\x08") {
  return "\x80\x02}"s + word("w") + "ctorch._utils\n_rebuild_tensor_v2\n((" + word("storage") +
         "ctorch\nByteStorage\n" + word("0") + word("cpu") + elements + "tQ" + offset + shape +
         strides + "tRs.";
}

TEST(TorchFile, ReadsZip64) {
  for (const bool zip64 : {false, true}) {
    const TorchFile file =
        of_pickle(tensor_pickle("K\x01", "K\x02K\x03\x86", "K\x01K\x02\x86"), {zip64});
    const Tensor tensor = file.tensor("w");
    EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(tensor.bytes()), 6), "bdfceg");
  }
}

TEST(TorchFile, RefusesViewsBeyondTheirStorage) {
  const auto refuse = [](const std::string& pickle, const char* part) {
    expect_error(Code::data_loss, part, [&] { of_pickle(pickle); });
  };
  const char* const beyond = "reaches beyond its storage of 8 numbers";
  refuse(tensor_pickle("K\x01", "K\x08\x85", "K\x01\x85"), beyond);
  refuse(tensor_pickle("K\x00"s, "K\x03\x85", "K\x04\x85"), beyond);
  refuse(tensor_pickle("J\xFF\xFF\xFF\xFF", "K\x02\x85", "K\x01\x85"), beyond);
  refuse(tensor_pickle("K\x00"s, "K\x02\x85", "J\xFF\xFF\xFF\xFF\x85"), beyond);
  refuse(tensor_pickle("K\x00"s, "K\x03\x85", "\x8a\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\x85"),
         beyond);
  refuse(tensor_pickle("K\x00"s, "J\xFF\xFF\xFF\xFF\x85", "K\x01\x85"), "negative");
  refuse(tensor_pickle("K\x00"s, "K\x02\x85", "K\x01\x85", "K\x09"), "found 8 bytes");
  refuse(tensor_pickle("K\x00"s, "K\x02K\x02\x86", "K\x01\x85"), "different lengths");
}

TEST(TorchFile, RefusesOpcodesByName) {
  const auto refuse = [](Code code, const std::string& pickle, const char* part) {
    expect_error(code, part, [&] { of_pickle(pickle); });
  };
  refuse(Code::unimplemented, "\x80\x04}\x81.", "the opcode 0x81 (NEWOBJ) at byte 3");
  refuse(Code::unimplemented, "(i", "the opcode 0x69 (INST) at byte 1");
  refuse(Code::unimplemented, "2", "0x32 (DUP)");
  refuse(Code::unimplemented, "\xff", "0xff at byte 0");
  refuse(Code::unimplemented, "\x8c\x02os\x8c\x06system\x93.", "the global os.system at byte 12");
  refuse(Code::unimplemented, "cbuiltins\neval\n.", "the global builtins.eval at byte 0");
  refuse(Code::unimplemented, "ctorch\nload\n.", "the global torch.load");
  refuse(Code::unimplemented, "ccollections\nOrderedDict\n]\x85R.", "with 1 arguments");
  refuse(Code::unimplemented, "]}b.", "BUILD");
  refuse(Code::unimplemented, "K\x01.", "holds no dict of tensors");
  refuse(Code::data_loss, "", "ends in the middle");
  refuse(Code::data_loss, ".", "empty stack");
  refuse(Code::data_loss, "t", "has no mark");
  refuse(Code::data_loss, "}(K\x01u.", "a key without a value");
  refuse(Code::data_loss, "h\x05", "loads a value that it never stored");
  refuse(Code::data_loss, "}r\xFF\xFF\xFF\x7F", "at a number beyond its size");
  refuse(Code::data_loss, "X\xFF\xFF\xFF\x7F", "more than 4096 bytes");
  refuse(Code::data_loss,
         "]q\x01h\x01"
         "a}Q",
         "is not a storage");
}

TEST(TorchFile, RefusesOtherZipFiles) {
  const std::string pickle = tensor_pickle("K\x00"s, "K\x08\x85", "K\x01\x85");
  expect_error(Code::unimplemented, "entry a/data.pkl is compressed (method 8)", [&] {
    of_pickle(pickle, {false, 8, 0});
  });
  expect_error(Code::unimplemented, "is encrypted", [&] { of_pickle(pickle, {false, 0, 1}); });
  const auto open = [](const std::string& bytes) { TorchFile(test::own_bytes(bytes), "x.bin"); };
  expect_error(Code::data_loss, "holds no data.pkl", [&] {
    open(test::zip_bytes({{"word/document.xml", "x"}}));
  });
  expect_error(Code::data_loss, "names a/data.pkl twice", [&] {
    open(test::zip_bytes({{"a/data.pkl", pickle}, {"a/data.pkl", pickle}}));
  });
  expect_error(Code::data_loss, "the entry data/0, which is missing", [&] {
    open(test::zip_bytes({{"a/data.pkl", pickle}}));
  });
  expect_error(Code::unimplemented, "big-endian", [&] {
    open(test::zip_bytes({{"a/data.pkl", pickle}, {"a/byteorder", "big"}}));
  });
}

} // namespace
} // namespace dllm::ckpt
