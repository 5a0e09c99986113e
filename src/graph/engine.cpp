// The options of engines, checks of places, and default implementations.

#include "graph/engine.h"

#include "base/error.h"
#include "graph/processes.h"

#include <nlohmann/json.hpp>

namespace dllm::graph {

std::string Program::text(std::string_view form) const {
  fail_with_hint("use an engine of kind pjrt", Code::unimplemented,
                 "this engine has no program text of form {}", form);
}

void Engine::expect_runs(const Placement& place) const {
  if (place.rank < 0 || place.rank >= place.mesh.ranks())
    fail(Code::out_of_range, "rank {} is not in a mesh of {}", place.rank, place.mesh.text());
  if (runs(place)) return;
  fail_with_hint("use a mesh of one rank, or an engine that was made as this rank of the mesh",
                 Code::unimplemented,
                 "this {} engine is rank {} of {} and cannot be rank {} of a mesh of {}", kind(),
                 i64("rank"), i64("ranks"), place.rank, place.mesh.text());
}

std::shared_ptr<Program> Engine::compile(std::shared_ptr<const Graph> graph,
                                         const Placement& place) {
  expect_runs(place);
  return compile(std::move(graph));
}

BufferRef Engine::upload(const Tensor& part, bool share, const Placement& place,
                         const Layout& layout) {
  expect_runs(place);
  layout.whole_shape(part.shape(), place.mesh); // fails if the layout does not fit the part
  BufferRef made = upload(part, share);
  made->set_layout(layout);
  return made;
}

BufferRef Engine::upload_weight(const Tensor& part, bool keep_plain, const Placement& place,
                                const Layout& layout, const Task* task) {
  expect_runs(place);
  layout.whole_shape(part.shape(), place.mesh);
  BufferRef made = upload_weight(part, keep_plain, task);
  made->set_layout(layout);
  return made;
}

std::vector<Tensor> Buffer::read_dealt(std::span<const int64_t> owners, const Task* task) const {
  const Tensor whole = read(task);
  if (owners.size() == 1) return {whole};
  std::vector<Tensor> rows;
  for (int64_t row = 0; row < std::ssize(owners); ++row) rows.push_back(whole.rows(row, row + 1));
  return rows;
}

const Mesh& Engine::mesh() const {
  static const Mesh single;
  return single;
}

Placement Engine::place() const {
  return {ProcessMesh(mesh(), processes()).processes, process()};
}

BufferRef Engine::upload_cut(const Tensor& whole, bool share, const Layout&) {
  return upload(whole, share);
}

BufferRef Engine::upload_weight_cut(const Tensor& whole, bool keep_plain, const Layout&,
                                    const Task* task) {
  return upload_weight(whole, keep_plain, task);
}

BufferRef Engine::upload_part(const Tensor&, bool, const Layout&) {
  fail(Code::internal, "an engine of one process does not have its own part");
}

BufferRef Engine::upload_weight_part(const Tensor& part, bool, const Layout& layout, const Task*) {
  return upload_part(part, false, layout);
}

BufferRef Engine::upload_pieces(std::span<const Tensor> pieces, AxisSet, bool share) {
  if (pieces.size() != 1)
    fail(Code::invalid_argument, "got {} arrays, expected one: the engine has one rank",
         pieces.size());
  return upload(pieces[0], share);
}

std::vector<std::string> Engine::exchange(const std::string& own, const Task*) {
  return {own};
}

void run_on_first(Engine& engine, const std::function<void()>& work) {
  if (engine.processes() == 1) return work();
  run_together([&](const std::string& own) { return engine.exchange(own); }, engine.process() == 0,
               work);
}

void run_on_all(Engine& engine, const std::function<void()>& work) {
  if (engine.processes() == 1) return work();
  run_together([&](const std::string& own) { return engine.exchange(own); }, true, work);
}

std::string Program::find_non_finite(std::span<const BufferRef>, const Task*) {
  return {};
}

namespace {

std::vector<OptionSpec> keys() {
  return {
      option_choice("kind", "cpu", {"cpu", "pjrt"}, "Which engine runs graphs."),
      option_i64("threads", 0, 0, 1024,
                 "cpu: number of threads of the engine; 0: as many as the process may use, and "
                 "with OpenMP at most OMP_NUM_THREADS."),
      option_choice(
          "thread_pool", "own", {"own", "openmp"},
          "cpu: kind of threads. own: threads of the engine, which sleep while idle; openmp: "
          "parallel regions of OpenMP, placed by its environment (OMP_PLACES, OMP_PROC_BIND)."),
      option_i64("memory_limit", 0, 0, INT64_MAX,
                 "cpu: most bytes of arrays and temporaries; 0: no limit."),
      option_choice("arithmetic", "f32", {"f32", "bf16", "int8"},
                    "cpu: arithmetic of products with weights. bf16: both operands are rounded to "
                    "bf16, also in gradients; int8: activations are rounded to 8 bits with a scale "
                    "per row (q8_0: per 32); weights of other formats are multiplied in f32."),
      option_choice("check", "none", {"none", "finite"},
                    "cpu: finite stops at the first operation that makes a number that is not "
                    "finite, and names it."),
      option_i64(
          "ranks", 0, 0, 256,
          "Ranks inside this process: threads that exchange arrays, devices of a plugin; 0: as "
          "many as mesh has. Without mesh they share the rows of a batch (data)."),
      option_str("mesh", "",
                 "The axes that ranks are laid out on, such as fsdp=4,tensor=2. data: rows of a "
                 "batch; fsdp: rows, with parameters and optimizer state cut too; tensor: heads, "
                 "inner sizes of networks and the vocabulary; sequence: positions of rows in "
                 "training; expert: rows, with experts cut."),
      option_choice(
          "processes", "one", {"one", "mpi"},
          "one: all ranks are in this process; mpi: the processes that mpirun started divide the "
          "ranks. cpu: each process is one rank; pjrt: each process has the same number of ranks "
          "on its plugin's devices. Without mesh a process is a rank of axis data."),
      option_str(
          "plugin", "",
          "pjrt: path of a plugin, or cpu, tpu or cuda for a plugin that the library finds."),
      option_str("target", "",
                 "pjrt: hardware to compile for without having it: v5e:1x1, v5e:2x4, v6e:1x1, "
                 "v4:2x2x4, h100, h200; an engine with a target runs nothing."),
      option_i64("pjrt.device", 0, 0, 1 << 20,
                 "Which of the plugin's devices holds the arrays; the first one of a mesh."),
      option_choice("pjrt.compute", "f32", {"f32", "bf16"},
                    "Type of the operands of matrix products; sums are f32 either way."),
      option_choice(
          "pjrt.precision", "highest", {"default", "high", "highest"},
          "Precision of f32 products on chips that split them; default may be bf16 or tf32."),
      option_str("pjrt.cache", "auto",
                 "Folder of compiled programs; auto: the user's cache folder, off: none."),
      option_i64("pjrt.cache_limit", int64_t{4} << 30, 0, INT64_MAX,
                 "Most bytes of the folder of compiled programs; programs that were used longest "
                 "ago are removed first; 0: no limit."),
      option_i64("pjrt.in_flight", 2, 1, 64, "Most runs that are started and not finished."),
      option_list("pjrt.client", {},
                  "Options of the plugin's client as name=value, such as cpu_device_count=8; an "
                  "option that this library does not know needs its type: name:i64=8 (string, i64, "
                  "list, f32, bool)."),
      option_list("pjrt.flags", {},
                  "Options of the plugin's compiler as name=value, such as "
                  "xla_gpu_enable_latency_hiding_scheduler=true."),
  };
}

} // namespace

const Schema& engine_schema() {
  static const Schema schema("engine", keys());
  return schema;
}

} // namespace dllm::graph
