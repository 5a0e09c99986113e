#pragma once
// The interface of an engine: options, programs, buffers.

#include "base/error.h"
#include "base/json.h"
#include "base/options.h"
#include "base/task.h"
#include "graph/graph.h"
#include "graph/mesh.h"

#include <fmt/core.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm {
class ThreadPool;
}

namespace dllm::graph {

// The options every engine is made from; an engine reads the keys of its kind.

const Schema& engine_schema(); // "engine"

// The failure of a run that had begun to write over the buffers it was given.

// Thrown by Program::run, and by Buffer::read of a run that failed late: donated inputs are neither
// what they were nor what they were to become. After any other exception they are as before the run.
class StateLost : public Error {
public:
  explicit StateLost(Error error) : Error(std::move(error)) {}
  // hint: what else to try, may be empty.
  StateLost(Code code, std::string text, const std::string& why, const std::string& hint = {})
      : Error(code, std::move(text),
              hint.empty() ? fmt::format("state lost: {}", why)
                           : fmt::format("state lost: {}; {}", why, hint)) {}
};

// Buffers, programs and engines: graphs are compiled and run, arrays are kept in forms that products read fast.

// An array an engine holds. Of an engine that is one rank of a mesh: the part of this rank. Of an engine of several ranks:
// the parts of all. Reads are safe from many threads; a donated buffer must not be used again.
class Buffer {
public:
  virtual ~Buffer() = default;
  virtual const Shape& shape() const = 0; // of the part of one rank
  virtual DType dtype() const = 0;
  // On the host; may share storage with the buffer: treat as read-only. The task is checked where numbers must be copied
  // or converted. Of an engine of several ranks: the whole array.
  virtual Tensor read(const Task* task = nullptr) const = 0;
  // The part of this process; of one process the whole array. May share storage as read() does.
  virtual Tensor read_part(const Task* task = nullptr) const { return read(task); }
  // Rows of the first dimension, dealt out to the processes: (1, ...) each, of a row that another process gets a Tensor
  // without storage. owners: the process of each row; a single one gets the whole array. No process holds more than its
  // part, its rows and the pieces of one row. All processes call it. REQUIRES: of several rows, that no layout cuts the first
  // dimension.
  virtual std::vector<Tensor> read_dealt(std::span<const int64_t> owners,
                                         const Task* task = nullptr) const;
  virtual int64_t memory_bytes() const = 0; // all forms together

  // The layout of the whole array on the mesh; shape() is that of this rank's part. An output that takes over an input has
  // the layout of that input, other outputs of a run are not described (whole).
  const Layout& layout() const { return layout_; }
  // For engines, before the buffer is handed to others.
  void set_layout(const Layout& layout) { layout_ = layout; }

private:
  Layout layout_;
};
using BufferRef = std::shared_ptr<Buffer>;

// Report of a compiler on its program; bytes of one device. known false: the engine compiles by itself.
struct CompiledReport {
  bool known = false;
  bool from_cache = false;
  double seconds = 0; // of compiling, or of loading from the cache
  int64_t argument_bytes = 0;
  int64_t output_bytes = 0;
  int64_t alias_bytes = 0; // of the outputs: those that take an argument's place
  int64_t temporary_bytes = 0;
  int64_t code_bytes = 0;
  int64_t peak_bytes = 0;   // 0: unknown
  int64_t device_bytes = 0; // memory of the device; 0: unknown
  double flops = 0;         // loops counted once, as compilers do; 0: unknown
  std::string fingerprint;
};

struct PlanReport {
  int64_t input_bytes = 0;  // parameters and other inputs, in the forms the program needs
  int64_t output_bytes = 0; // those that take over no input
  int64_t constant_bytes = 0;
  int64_t arena_bytes = 0; // temporaries at their peak, scratch of kernels included
  // Sum of the above: known before anything runs. Each further run at the same time adds its outputs and its arena.
  int64_t peak_bytes = 0;
  double flops = 0; // of one run, scans multiplied out; multiply-add counts 2
  CompiledReport compiled;
};

// When a run that is cancelled may stop. before_overwrite: not any more once a donated input is being written, so that a
// cancelled run has lost nothing; the rest of the run is then finished however long it takes.
enum class StopRule { anywhere, before_overwrite };

// A compiled graph. run() may be called from any thread, and by several threads at once: each run has its own arena and
// outputs. Inputs may be shared by runs unless a run donates them. The CPU engine computes such runs at the same time; with
// a memory limit a run that does not fit next to those in progress waits for them. The pjrt engine starts one after the
// other. A program of several ranks exchanges arrays while it runs: every rank runs the same program in the same order,
// one run at a time on each rank.
class Program {
public:
  virtual ~Program() = default;
  virtual const Graph& graph() const = 0;
  virtual const PlanReport& plan() const = 0;
  // The rank this program was compiled for.
  virtual Placement placement() const { return {}; }
  // Inputs in the order of graph().inputs(); types are checked and named in errors. Inputs taken over by outputs are
  // consumed (the engine writes in place when it is the only holder of the buffer, else copies first). Checks `task` before
  // every node, inside scans and inside long nodes (every 10 ms of work on the CPU). A run that throws graph::StateLost
  // leaves donated inputs undefined; after any other exception, of whatever type, they are as before.
  // On several ranks a failure or cancel of one rank ends the run of all with an error. With before_overwrite a cancel
  // stops either all ranks or none: they meet before the first donated input is written.
  virtual std::vector<BufferRef> run(std::span<const BufferRef> inputs, const Task* task = nullptr,
                                     StopRule rule = StopRule::anywhere) = 0;
  // Runs once more to name the first operation that makes NaN or infinity; "" when none does, or when the engine
  // cannot find it. On several ranks all ranks call it. Donated inputs with another holder stay as they are.
  virtual std::string find_non_finite(std::span<const BufferRef> inputs,
                                      const Task* task = nullptr);
  // The program as text: "stablehlo" (what a compiler was given), "optimized" (what it made). Fails with unimplemented
  // where there is no such form.
  virtual std::string text(std::string_view form) const;
};

class Engine {
public:
  virtual ~Engine() = default;
  virtual std::string kind() const = 0; // "cpu" "pjrt"
  // True: run() starts work and returns, read() waits for it; every read is a trip to the device and back.
  virtual bool runs_ahead() const { return false; }
  // True: compile() only plans, which takes about a millisecond. Then sizes need not be rounded up so that calls share programs.
  virtual bool compiles_fast() const { return false; }
  // For work of a caller on the host between two runs; null: the calling thread alone.
  virtual std::shared_ptr<ThreadPool> threads() const { return nullptr; }
  // For a mesh of one rank.
  virtual std::shared_ptr<Program> compile(std::shared_ptr<const Graph> graph) = 0;
  // True when this engine is rank `place.rank` of a mesh that it can run. A mesh of one rank: every engine.
  virtual bool runs(const Placement& place) const { return place.is_single(); }
  // The program of one rank. Collective operations of the graph exchange arrays between the ranks of place.mesh. Fails
  // with unimplemented, naming the mesh, where runs(place) is false.
  virtual std::shared_ptr<Program> compile(std::shared_ptr<const Graph> graph,
                                           const Placement& place);
  // Takes an array in. share: the engine may keep using the tensor's storage (it must not change afterwards).
  virtual BufferRef upload(const Tensor& tensor, bool share = false) = 0;
  // Takes a parameter in and prepares the forms matrix products want. Stacked weights are (count, out, in). keep_plain false: only
  // the packed form stays (frozen weights; read() undoes the packing exactly).
  virtual BufferRef upload_weight(const Tensor& tensor, bool keep_plain,
                                  const Task* task = nullptr) = 0;
  // The same for an array on a mesh: `part` is what Layout::part gives for this rank. Fail as compile() does.
  BufferRef upload(const Tensor& part, bool share, const Placement& place, const Layout& layout);
  BufferRef upload_weight(const Tensor& part, bool keep_plain, const Placement& place,
                          const Layout& layout, const Task* task = nullptr);

  // --- an engine of several ranks ---
  // It compiles the graph of one rank and runs it on all of them; its buffers hold the parts of all ranks. Engines of one
  // rank have a mesh of one, where a layout changes nothing.
  virtual const Mesh& mesh() const;
  // Takes a whole array in, of which each rank keeps its part. Fails with invalid_argument where it cannot be cut.
  virtual BufferRef upload_cut(const Tensor& whole, bool share, const Layout& layout);
  virtual BufferRef upload_weight_cut(const Tensor& whole, bool keep_plain, const Layout& layout,
                                      const Task* task = nullptr);
  // The same of a part that this process cut by itself, for place(). REQUIRES: processes() > 1.
  virtual BufferRef upload_part(const Tensor& part, bool share, const Layout& layout);
  virtual BufferRef upload_weight_part(const Tensor& part, bool keep_plain, const Layout& layout,
                                       const Task* task = nullptr);
  // Arrays of equal shape that differ along `axes`: one for each of their places, in the order of Mesh::groups. Such a
  // buffer cannot be read.
  virtual BufferRef upload_pieces(std::span<const Tensor> pieces, AxisSet axes, bool share);

  // --- an engine whose ranks are processes ---
  // Each process has the engine with equally many of the ranks, and makes the same calls in the same order: a run, a read
  // of an array that is cut and an exchange wait for the others. The first process is the one that prints and writes files.
  virtual int64_t processes() const { return 1; }
  virtual int64_t process() const { return 0; }
  // This process on the mesh of processes (graph/processes.h): where a process is one rank, that rank of mesh(). The
  // part of an array that a process has is Layout::part of this place.
  Placement place() const;
  // What each process gives, by process.
  virtual std::vector<std::string> exchange(const std::string& own, const Task* task = nullptr);

  virtual int64_t device_count() const = 0;
  virtual std::string device_name(int64_t index) const = 0;
  virtual Json describe() const = 0;
  virtual void set_i64(std::string_view key, int64_t value) = 0; // threads memory_limit
  virtual int64_t i64(std::string_view key)
      const = 0;                   // rank ranks threads memory_used compiles round_trips bytes_sent
  virtual double peak_flops() = 0; // f32 multiply-adds x 2 per second, measured once
  virtual void trim() = 0;         // gives cached memory and plans back

protected:
  void
  expect_runs(const Placement& place) const; // fails with unimplemented when runs(place) is false
};

// Calls work() on the first process, or on all; returns when it has ended, or throws the error of the first process that
// failed, on all.
void run_on_first(Engine& engine, const std::function<void()>& work);
void run_on_all(Engine& engine, const std::function<void()>& work);

} // namespace dllm::graph
