// Folders of fp8 and int8 with scales: the format that a model keeps, its numbers, and refusals.

#include "ckpt/safetensors/safetensors.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "ckpt/scaled/scaled.h"
#include "model/model.h"
#include "unit/model/model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace dllm::model {
namespace {

using test::expect_error;
using test::model_options;
using test::small_engine;

using Tensors = std::map<std::string, Tensor>;

// A model in f32, and the same with its projections in 8 bits.
class ScaledFolder {
public:
  ScaledFolder() {
    Json config = test::small_config("llama");
    config.update({{"hidden_size", 64}, {"intermediate_size", 160}, {"head_dim", 16}});
    const auto model = new_model(small_engine(), config, model_options({{"seed", "5"}}));
    save_model(*model, folder_.path("f32"), Options(save_schema()));
  }

  // Rounds each projection to `levels` and stores `kind` of it in folder `to`; the f32 folder "as"
  // has the numbers of that. Blocks of scales are `height` x `width`; 0: the whole matrix.
  void write(const std::string& to, bool is_e4m3, int64_t height, int64_t width,
             const char* ending) {
    Tensors scaled, plain;
    std::set<std::string> bytes;
    const ckpt::SafetensorsFile file(map_file(folder_.path("f32/model.safetensors")), "f32");
    for (const auto& [name, info] : file.tensors()) {
      const Tensor tensor = file.tensor(name).clone();
      if (!name.ends_with("_proj.weight")) {
        scaled[name] = plain[name] = tensor;
        continue;
      }
      store(name, tensor, is_e4m3, height, width, ending, scaled, plain);
      if (is_e4m3) bytes.insert(name);
    }
    Json config = parse_json(read_text(folder_.path("f32/config.json")), "config.json");
    save("as", config, plain, {});
    config["quantization_config"] = {{"quant_method", "fp8"}};
    if (height > 0) config["quantization_config"]["weight_block_size"] = {height, width};
    save(to, config, scaled, bytes);
  }

  std::string path(const std::string& name) const { return folder_.path(name); }
  void save(const std::string& to, const Json& config, const Tensors& tensors,
            const std::set<std::string>& e4m3) const {
    make_directories(folder_.path(to));
    const std::string file = folder_.path(to + "/model.safetensors");
    write_file_atomic(folder_.path(to + "/config.json"), config.dump());
    ckpt::write_safetensors(file, {tensors.begin(), tensors.end()});
    if (e4m3.empty()) return;
    // The writer has no e4m3, so the header gets this word in place of "U8", and spaces at its end.
    std::string text = read_text(file);
    uint64_t length = 0;
    std::memcpy(&length, text.data(), sizeof length);
    Json header = Json::parse(text.substr(8, length));
    for (const std::string& name : e4m3) header[name]["dtype"] = "F8_E4M3";
    const std::string words = header.dump();
    const uint64_t longer = (words.size() + 7) / 8 * 8;
    std::string made(reinterpret_cast<const char*>(&longer), sizeof longer);
    made += words + std::string(longer - words.size(), ' ') + text.substr(8 + length);
    write_file_atomic(file, made);
  }

private:
  static uint8_t nearest_e4m3(float x) {
    int best = 0;
    for (int byte = 0; byte < 256; ++byte) {
      const float number = ckpt::e4m3_to_f32(static_cast<uint8_t>(byte));
      if (std::abs(number - x) < std::abs(ckpt::e4m3_to_f32(static_cast<uint8_t>(best)) - x))
        best = byte;
    }
    return static_cast<uint8_t>(best);
  }

  static void store(const std::string& name, const Tensor& tensor, bool is_e4m3, int64_t height,
                    int64_t width, const char* ending, Tensors& scaled, Tensors& plain) {
    const int64_t out = tensor.shape().dim(0), in = tensor.shape().dim(1);
    const int64_t high = height > 0 ? height : out, wide = width > 0 ? width : in;
    const int64_t down = (out + high - 1) / high, across = (in + wide - 1) / wide;
    Tensor codes(is_e4m3 ? DType::u8 : DType::i8, {out, in}), numbers(DType::f32, {out, in});
    Tensor scales(DType::f32, across == 1 && down == 1 ? Shape{1} : Shape{down, across});
    for (int64_t i = 0; i < scales.count(); ++i)
      scales.mutable_as<float>()[static_cast<size_t>(i)] =
          0.001f + 0.0001f * static_cast<float>(i % 7);
    for (int64_t i = 0; i < out * in; ++i) {
      const float scale =
          scales.as<float>()[static_cast<size_t>(i / in / high * across + i % in / wide)];
      const float wanted = tensor.as<float>()[static_cast<size_t>(i)] / scale;
      float number;
      if (is_e4m3) {
        const uint8_t byte = nearest_e4m3(std::clamp(wanted, -448.0f, 448.0f));
        codes.mutable_as<uint8_t>()[static_cast<size_t>(i)] = byte;
        number = ckpt::e4m3_to_f32(byte);
      } else {
        number = std::nearbyint(std::clamp(wanted, -100.0f, 100.0f)) + 0.0f; // no -0
        codes.mutable_as<int8_t>()[static_cast<size_t>(i)] = static_cast<int8_t>(number);
      }
      numbers.mutable_as<float>()[static_cast<size_t>(i)] = number * scale;
    }
    scaled[name] = codes;
    scaled[name + ending] = scales;
    plain[name] = numbers;
  }

  test::TempFolder folder_;
};

std::shared_ptr<Model> loaded(const std::string& path, const char* dtype = "auto") {
  return load_model(small_engine(), path, model_options({{"dtype", dtype}}));
}

void expect_same_numbers(const Model& one, const Model& other) {
  for (const std::string& name : one.params().names(kBasePart))
    EXPECT_TRUE(test::same_bytes(one.params().read(name), other.params().read(name))) << name;
}

Json storage_row(const Model& model, const std::string& name) {
  const Json about = model.describe();
  for (const Json& row : about.at("storage"))
    if (row.at("name") == name) return row;
  return {};
}

struct ScaledCase {
  bool is_e4m3;
  int64_t height, width;
  const char* ending;
  const char* kept;
};

TEST(ScaledFolders, HaveTheirNumbersInF32AndAFormatThatProductsRead) {
  for (const ScaledCase& c : {ScaledCase{true, 0, 0, "_scale", "q8_0"},
                              {true, 1, 0, "_scale", "q8_0"},
                              {true, 48, 32, "_scale_inv", "q8_0"},
                              {false, 1, 32, "_scale", "q8_0"},
                              {false, 0, 0, "_scale", "int8"},
                              {false, 1, 0, "_scale", "int8"}}) {
    ScaledFolder folder;
    folder.write("scaled", c.is_e4m3, c.height, c.width, c.ending);
    expect_same_numbers(*loaded(folder.path("scaled"), "f32"), *loaded(folder.path("as")));
    const auto kept = loaded(folder.path("scaled"));
    const Json row = storage_row(*kept, "layers.q");
    EXPECT_EQ(row.at("format"), c.kept);
    if (std::string(c.kept) == "int8") {
      EXPECT_EQ(row.at("rounding_error"), 0.0);
      expect_same_numbers(*kept, *loaded(folder.path("as")));
    } else {
      // Half a level, and the scale rounded to f16.
      EXPECT_LT(row.at("rounding_error").get<double>(), 1.0 / 254 + 1.0 / 2048);
      EXPECT_GT(row.at("rounding_error").get<double>(), 1e-4);
    }
    EXPECT_EQ(storage_row(*kept, "embedding").at("format"), "f32");
  }
}

TEST(ScaledFolders, RefuseOtherKindsByName) {
  ScaledFolder folder;
  const std::string module = "model.layers.1.mlp.up_proj";
  const auto loaded_with = [&](const std::function<void(Tensors&)>& change,
                               const char* method = nullptr) {
    Tensors tensors;
    const ckpt::SafetensorsFile file(map_file(folder.path("f32/model.safetensors")), "f32");
    for (const auto& [name, info] : file.tensors()) tensors[name] = file.tensor(name).clone();
    change(tensors);
    Json config = parse_json(read_text(folder.path("f32/config.json")), "config.json");
    if (method != nullptr) config["quantization_config"] = {{"quant_method", method}};
    folder.save("other", config, tensors, {});
    loaded(folder.path("other"));
  };
  expect_error(Code::unimplemented, "weights of GPTQ", [&] {
    loaded_with([&](Tensors& all) {
      all.erase(module + ".weight");
      all[module + ".qweight"] = Tensor(DType::i32, {8, 160});
      all[module + ".g_idx"] = Tensor(DType::i32, {64});
    });
  });
  expect_error(Code::unimplemented, "weights of AWQ", [&] {
    loaded_with(
        [&](Tensors& all) {
          all.erase(module + ".weight");
          all[module + ".qweight"] = Tensor(DType::i32, {64, 20});
          all[module + ".qzeros"] = Tensor(DType::i32, {1, 20});
        },
        "awq");
  });
  expect_error(Code::unimplemented, "compressed-tensors with packed", [&] {
    loaded_with([&](Tensors& all) {
      all.erase(module + ".weight");
      all[module + ".weight_packed"] = Tensor(DType::i32, {160, 8});
      all[module + ".weight_scale"] = Tensor(DType::f32, {160, 2});
    });
  });
  expect_error(Code::data_loss, "up_proj.weight has shape", [&] {
    loaded_with([&](Tensors& all) {
      all[module + ".weight"] = Tensor(DType::i8, {160, 32});
      all[module + ".weight_scale"] = Tensor(DType::f32, {1});
    });
  });
}

} // namespace
} // namespace dllm::model
