#pragma once
// Defines the interface of an engine: its options, programs and buffers.

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

// The options of all engines (kind "engine"). An engine reads the keys of its kind.
const Schema& engine_schema();

// The error of a run that failed after it had begun to write to donated inputs, whose numbers are
// now undefined. Program::run throws it, and so does Buffer::read if a run fails after run() has
// returned. After any other exception donated inputs are as before the run.
class StateLost : public Error {
public:
  explicit StateLost(Error error) : Error(std::move(error)) {}
  // hint: another thing to try; may be empty.
  StateLost(Code code, std::string text, const std::string& why, const std::string& hint = {})
      : Error(code, std::move(text),
              hint.empty() ? fmt::format("state lost: {}", why)
                           : fmt::format("state lost: {}; {}", why, hint)) {}
};

// An array that an engine holds. An engine that is one rank of a mesh holds the part of this rank.
// An engine with several ranks holds the parts of all ranks. Many threads may read a buffer at
// once. A donated buffer must not be used again.
class Buffer {
public:
  virtual ~Buffer() = default;
  virtual const Shape& shape() const = 0; // shape of one rank's part
  virtual DType dtype() const = 0;
  // Returns the array in host memory; an engine of several ranks returns the whole array. The
  // tensor may share storage with the buffer, so do not write to it. The task is checked while
  // numbers are copied or converted.
  virtual Tensor read(const Task* task = nullptr) const = 0;
  // Returns the part of this process, or the whole array if there is one process. The tensor may
  // share storage as in read().
  virtual Tensor read_part(const Task* task = nullptr) const { return read(task); }
  // Distributes the rows of the first dimension to processes. owners[row]: the process that
  // receives this row as an array (1, ...); other processes get a Tensor without storage. A single
  // owner receives the whole array. All processes must call it. A process holds at most its part,
  // its rows and the pieces of one row. REQUIRES: with several owners, the layout does not cut the
  // first dimension.
  virtual std::vector<Tensor> read_dealt(std::span<const int64_t> owners,
                                         const Task* task = nullptr) const;
  virtual int64_t memory_bytes() const = 0; // all forms together

  // Returns the layout of the whole array on the mesh. An output that takes over an input has the
  // input's layout; other outputs of a run have the default layout (whole).
  const Layout& layout() const { return layout_; }
  // Engines set the layout before they return the buffer.
  void set_layout(const Layout& layout) { layout_ = layout; }

private:
  Layout layout_;
};
using BufferRef = std::shared_ptr<Buffer>;

// A compiler's report on its program. All bytes are per device.
struct CompiledReport {
  bool known = false; // false: the engine has no separate compiler
  bool from_cache = false;
  double seconds = 0; // time to compile, or to load from the cache
  int64_t argument_bytes = 0;
  int64_t output_bytes = 0;
  int64_t alias_bytes = 0; // bytes of outputs that take over an argument
  int64_t temporary_bytes = 0;
  int64_t code_bytes = 0;
  int64_t peak_bytes = 0;   // 0: unknown
  int64_t device_bytes = 0; // memory of the device; 0: unknown
  double flops = 0;         // a loop body counts once, as compilers report; 0: unknown
  std::string fingerprint;
};

struct PlanReport {
  int64_t input_bytes = 0;  // parameters and other inputs, in the forms that the program reads
  int64_t output_bytes = 0; // outputs that do not take over an input
  int64_t constant_bytes = 0;
  int64_t arena_bytes = 0; // peak of temporaries and of kernel scratch memory
  // Sum of the fields above, computed before a run. Each further run at the same time adds its
  // outputs and its arena.
  int64_t peak_bytes = 0;
  double flops = 0; // of one run; a scan counts every step, a multiply-add counts 2
  CompiledReport compiled;
};

// When a cancelled run may stop. before_overwrite: only before the first donated input is written.
// After that the run goes on to its end, so that a cancelled run loses no state.
enum class StopRule { anywhere, before_overwrite };

// A compiled graph. Several threads may call run() at once, because each run has its own arena and
// outputs. Concurrent runs may share inputs that are not donated. The CPU engine computes
// concurrent runs at the same time; with a memory limit, a run that does not fit waits for the runs
// in progress. The pjrt engine starts one run after the other.
//
// A program of several ranks exchanges arrays while it runs. Every rank must run the same programs
// in the same order, one run at a time.
class Program {
public:
  virtual ~Program() = default;
  virtual const Graph& graph() const = 0;
  virtual const PlanReport& plan() const = 0;
  // Returns the rank for which this program was compiled.
  virtual Placement placement() const { return {}; }
  // Runs the program. inputs: in the order of graph().inputs(); an error names an input of the
  // wrong type. An output that takes over an input consumes it. The engine writes in place if it is
  // the only holder of the buffer, else it copies first. `task` is checked before every node,
  // inside scans and inside long nodes (every 10 ms of work on the CPU). After graph::StateLost
  // donated inputs are undefined; after any other exception they are as before. On several ranks
  // the failure or cancel of one rank ends the run of all ranks with an error. With
  // before_overwrite the ranks synchronise before the first donated input is written, so a cancel
  // stops all ranks or none.
  virtual std::vector<BufferRef> run(std::span<const BufferRef> inputs, const Task* task = nullptr,
                                     StopRule rule = StopRule::anywhere) = 0;
  // Runs once more and names the first operation that makes NaN or infinity. Returns "" if there is
  // none or the engine cannot find it. On several ranks all ranks must call it. A donated input
  // whose buffer has another holder is not changed.
  virtual std::string find_non_finite(std::span<const BufferRef> inputs,
                                      const Task* task = nullptr);
  // Returns the program as text. form: "stablehlo" (input of the compiler) or "optimized" (its
  // output). Fails with unimplemented if the engine lacks the form.
  virtual std::string text(std::string_view form) const;
};

class Engine {
public:
  virtual ~Engine() = default;
  virtual std::string kind() const = 0; // "cpu" "pjrt"
  // Returns true if run() only starts the work and read() waits for it. A read then costs a round
  // trip to the device.
  virtual bool runs_ahead() const { return false; }
  // Returns true if compile() only plans, which takes about a millisecond. Callers then need not
  // round sizes up to share programs.
  virtual bool compiles_fast() const { return false; }
  // Returns the pool for a caller's work on the host between two runs. With null the calling thread
  // does the work.
  virtual std::shared_ptr<ThreadPool> threads() const { return nullptr; }
  // Compiles a graph for a mesh of one rank.
  virtual std::shared_ptr<Program> compile(std::shared_ptr<const Graph> graph) = 0;
  // Returns true if this engine can run rank place.rank of place.mesh. Every engine can run a mesh
  // of one rank.
  virtual bool runs(const Placement& place) const { return place.is_single(); }
  // Compiles the program of one rank. The collective operations of the graph exchange arrays
  // between the ranks of place.mesh. Fails with unimplemented, naming the mesh, if runs(place) is
  // false.
  virtual std::shared_ptr<Program> compile(std::shared_ptr<const Graph> graph,
                                           const Placement& place);
  // Makes a buffer of an array. share: the engine may use the tensor's storage, which must not
  // change afterwards.
  virtual BufferRef upload(const Tensor& tensor, bool share = false) = 0;
  // Makes a buffer of a parameter, (out, in) or stacked (count, out, in), in the forms that matrix
  // products read. keep_plain false: only the packed form is kept, for frozen weights. read()
  // undoes the packing exactly.
  virtual BufferRef upload_weight(const Tensor& tensor, bool keep_plain,
                                  const Task* task = nullptr) = 0;
  // Make a buffer of this rank's part of an array. part: Layout::part for this rank. Fail as
  // compile() does.
  BufferRef upload(const Tensor& part, bool share, const Placement& place, const Layout& layout);
  BufferRef upload_weight(const Tensor& part, bool keep_plain, const Placement& place,
                          const Layout& layout, const Task* task = nullptr);

  // --- an engine of several ranks ---
  // Such an engine compiles the graph of one rank and runs it on all ranks. Its buffers hold the
  // parts of all ranks. An engine of one rank has a mesh of one, and layouts have no effect.
  virtual const Mesh& mesh() const;
  // Makes a buffer of a whole array; each rank keeps its part. Fails with invalid_argument if the
  // array cannot be cut.
  virtual BufferRef upload_cut(const Tensor& whole, bool share, const Layout& layout);
  virtual BufferRef upload_weight_cut(const Tensor& whole, bool keep_plain, const Layout& layout,
                                      const Task* task = nullptr);
  // Makes a buffer of the part of this process, Layout::part for place().
  // REQUIRES: processes() > 1.
  virtual BufferRef upload_part(const Tensor& part, bool share, const Layout& layout);
  virtual BufferRef upload_weight_part(const Tensor& part, bool keep_plain, const Layout& layout,
                                       const Task* task = nullptr);
  // Makes a buffer of an array that varies over `axes`. pieces: arrays of equal shape, one per
  // place along the axes, in the order of Mesh::groups. Such a buffer cannot be read.
  virtual BufferRef upload_pieces(std::span<const Tensor> pieces, AxisSet axes, bool share);

  // --- an engine whose ranks are processes ---
  // Each process has an engine with the same number of ranks. All processes make the same calls in
  // the same order. A run, a read of a cut array and an exchange wait for the other processes. The
  // first process prints and writes files.
  virtual int64_t processes() const { return 1; }
  virtual int64_t process() const { return 0; }
  // Returns the place of this process on the mesh of processes (graph/processes.h). If each process
  // is one rank, this is the rank of mesh(). The process has the part Layout::part(whole, place())
  // of an array.
  Placement place() const;
  // Sends `own` to all processes and returns the strings of all processes, by process.
  virtual std::vector<std::string> exchange(const std::string& own, const Task* task = nullptr);

  virtual int64_t device_count() const = 0;
  virtual std::string device_name(int64_t index) const = 0;
  virtual Json describe() const = 0;
  // Keys: threads, memory_limit.
  virtual void set_i64(std::string_view key, int64_t value) = 0;
  // Keys: rank, ranks, threads, memory_used, compiles, round_trips, bytes_sent.
  virtual int64_t i64(std::string_view key) const = 0;
  virtual double peak_flops() = 0; // f32 flops per second, measured once; a multiply-add counts 2
  virtual void trim() = 0;         // frees cached memory and plans

protected:
  // Fails with unimplemented if runs(place) is false.
  void expect_runs(const Placement& place) const;
};

// Call work() on the first process, or on all processes, and return on all processes when it has
// ended. If a process fails, all processes throw the error of the first one that failed.
void run_on_first(Engine& engine, const std::function<void()>& work);
void run_on_all(Engine& engine, const std::function<void()>& work);

} // namespace dllm::graph
