#pragma once
// Declares every operation as a free function that appends a node. Elementwise functions broadcast
// as numpy does (a `broadcast` node is inserted). Integer division and shifts are exact.
// Comparisons return u8 (0 or 1). Axis -1 is the last axis. Each function fails with
// invalid_argument, naming the operation and the shapes. Activations have the shape (batch, seq,
// heads, head_dim).

#include "graph/graph.h"
#include "graph/mask.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dllm::graph {

// --- making values ---
Value constant(Graph& graph, Tensor literal);
Value scalar(Graph& graph, float value);
Value scalar_i32(Graph& graph, int32_t value);
Value full(Graph& graph, Shape shape, float value);
Value iota(Graph& graph, Shape shape, DType dtype, int64_t axis);

// --- shape ---
Value broadcast(Value x, Shape shape); // numpy rules: trailing axes align
Value reshape(Value x, Shape shape);
Value transpose(Value x, std::vector<int64_t> permutation);
Value slice(Value x, std::vector<int64_t> begin, std::vector<int64_t> end);
Value slice_axis(Value x, int64_t axis, int64_t begin, int64_t end);
Value pad(Value x, std::vector<int64_t> low, std::vector<int64_t> high, Value fill);
Value concat(const std::vector<Value>& parts, int64_t axis);
Value reverse(Value x, int64_t axis);
// begin: one i32 scalar per axis, clamped so that the slice fits (as in StableHLO).
Value dynamic_slice(Value x, const std::vector<Value>& begin, std::vector<int64_t> size);
Value dynamic_update_slice(Value x, Value update, const std::vector<Value>& begin);

// --- elementwise ---
Value convert(Value x, DType dtype); // float to integer truncates toward zero
Value bitcast(Value x, DType dtype); // same element size
// predicate: u8; every number but 0 selects on_true.
Value select(Value predicate, Value on_true, Value on_false);
Value clamp(Value low, Value x, Value high);
Value add(Value x, Value y);
Value subtract(Value x, Value y);
Value multiply(Value x, Value y);
Value divide(Value x, Value y);
Value remainder(Value x, Value y); // sign of x
Value minimum(Value x, Value y);
Value maximum(Value x, Value y);
Value power(Value x, Value y);
Value negate(Value x);
Value absolute(Value x);
Value sign(Value x);
Value exp(Value x);
Value expm1(Value x);
Value log(Value x);
Value log1p(Value x);
Value tanh(Value x);
Value logistic(Value x);
Value sqrt(Value x);
Value rsqrt(Value x);
Value sin(Value x);
Value cos(Value x);
Value erf(Value x);
Value erf_inv(Value x);
Value floor(Value x);
Value round(Value x); // half to even
Value is_finite(Value x);
Value equal(Value x, Value y);
Value not_equal(Value x, Value y);
Value less(Value x, Value y);
Value less_equal(Value x, Value y);
Value greater(Value x, Value y);
Value greater_equal(Value x, Value y);
Value logical_and(Value x, Value y); // also bitwise on integers
Value logical_or(Value x, Value y);
Value logical_xor(Value x, Value y);
Value logical_not(Value x); // u8: 1 - x
Value shift_left(Value x, Value y);
Value shift_right_logical(Value x, Value y);

// --- reductions and ordering. keep: a reduced axis stays with extent 1; else it is dropped ---
Value sum(Value x, std::vector<int64_t> axes, bool keep = false);
Value max(Value x, std::vector<int64_t> axes, bool keep = false);
Value min(Value x, std::vector<int64_t> axes, bool keep = false);
Value argmax(Value x, int64_t axis); // i32, lowest index wins
Value cumsum(Value x, int64_t axis);
struct TopK {
  Value values;
  Value indices; // i32; of equal values the lower index comes first
};
TopK top_k(Value x, int64_t k);      // along the last axis, largest first
TopK sort(Value x, bool descending); // along the last axis, stable

// --- indexing ---
// Returns rows of the first axis. table (n, ...), indices i32(...); the result has shape
// indices.shape + table.shape[1:]. A bf16 table, or an i8 table with scale f32(n), is widened to
// f32. Indices out of range are clamped.
Value take(Value table, Value indices, Value scale = {});
Value take_along(Value x, Value indices, int64_t axis); // numpy.take_along_axis
// Add to, or replace, rows of the first axis: indices i32(m), updates (m, ...). An index out of
// range is dropped. In scatter_set the last update of a row wins.
Value scatter_add(Value x, Value indices, Value updates);
Value scatter_set(Value x, Value indices, Value updates);

// --- products ---
// Batched matrix product (.., m, k) x (.., k, n). Leading axes are equal or broadcast.
Value dot(Value x, Value y);

// --- random, gradients, order ---
// Returns random u32 by threefry in the partitionable counter layout. key: u32(2), or u32(rows, 2)
// with a key for each row of the result.
Value random_bits(Value key, Shape shape);
Value random_uniform(Value key, Shape shape); // f32 in [0, 1)
Value stop_gradient(Value x);
Value barrier(Value x); // passes never merge a barrier

// --- compositions of the above ---
Value softcap(Value x, float cap); // cap * tanh(x / cap), or x if cap is 0
Value softmax(Value x, int64_t axis);
Value log_softmax(Value x, int64_t axis);
// Returns the log-sum-exp along `axis`, which is dropped. over: mesh axes that cut this dimension
// (a vocabulary over ranks); the result is equal over them. REQUIRES: at least one element is
// finite.
Value log_sum_exp(Value x, int64_t axis, AxisSet over = {});
Value softplus(Value x);
Value silu(Value x);
Value gelu(Value x, bool tanh_form);
Value mean(Value x, std::vector<int64_t> axes, bool keep = false);

// --- mesh: on one rank these operations change only the axes of the type ---
Value vary(Value x, AxisSet axes);
Value all_reduce(Value x, AxisSet axes);     // sum over ranks, in the order of ranks
Value all_reduce_max(Value x, AxisSet axes); // largest over ranks
// equal: the type of the result is equal over the axis; else the result varies, as for a weight
// that is gathered where it is used.
Value all_gather(Value x, Axis axis, int64_t dim, int64_t ranks, bool equal = false);
// Returns this rank's part of x if `dim` is cut over the axis: the inverse of all_gather, without
// an exchange.
Value own_part(Value x, Axis axis, int64_t dim, int64_t ranks);
Value reduce_scatter(Value x, Axis axis, int64_t dim, int64_t ranks);
Value all_to_all(Value x, Axis axis, int64_t split_dim, int64_t concat_dim, int64_t ranks);
Value permute(Value x, Axis axis, std::vector<int64_t> target_of_rank);
Value axis_index(Graph& graph, Axis axis); // i32 scalar

// --- control ---
struct ScanOptions {
  // The steps i with begin <= i < end run.
  int64_t begin = 0;
  int64_t end = -1;     // -1: count
  bool reverse = false; // the last step runs first
  // The gradient recomputes the body instead of keeping its intermediate values.
  bool remat = false;
  // Number of intermediate values that the gradient recomputes instead of keeping, in the order of
  // bytes saved per operation.
  int64_t recompute = 0;
  // The gradient keeps f32 values as bf16. Row statistics, which an operation returns in addition
  // to its result, stay f32.
  bool round_kept = false;
};
struct ScanResult {
  std::vector<Value> carry;
  std::vector<Value> stacked;
};
// Runs `body` once per step. Inputs of the body: carry..., one element of each per_layer...,
// consts... Outputs of the body: next carry..., per-step results... The carry has values of any
// type that pass from step to step. per_layer: stacked values (count, ...), one element per step.
// Returns the final carry and the stacked per-step results (count, ...), whose rows outside
// [begin, end) are zero.
ScanResult scan(std::shared_ptr<const Graph> body, const std::vector<Value>& carry,
                const std::vector<Value>& per_layer, const std::vector<Value>& consts,
                int64_t count, const ScanOptions& options = {});
// Repeats `body` (state -> state) while `cond` (state -> u8 scalar) is not 0. cond must be equal
// over every axis on which the body exchanges arrays. Both also receive consts, after the state. It
// has no gradient.
std::vector<Value> while_loop(std::shared_ptr<const Graph> cond, std::shared_ptr<const Graph> body,
                              const std::vector<Value>& state,
                              const std::vector<Value>& consts = {});

// --- fused: one kernel on engines that have it, else decomposed ---
// y = x w^T + bias. x f32(..., in), weight (out, in) f32, bf16 or i8, scale f32(out) for i8,
// bias f32(out).
Value linear(Value x, Value weight, Value bias = {}, Value scale = {});
// Normalize over the last axis. weight and bias may be undefined.
Value rms_norm(Value x, Value weight, float eps);
Value layer_norm(Value x, Value weight, Value bias, float eps);
// Rotates the first `rotary` dims of x in pairs: half-split (i, i + rotary/2) or interleaved
// (2i, 2i + 1). x (batch, seq, heads, dim), positions i32(batch, seq) or i32(seq),
// inv_freq f32(rotary / 2). amplitude multiplies cos and sin (YaRN).
Value rope(Value x, Value positions, Value inv_freq, bool interleaved = false,
           float amplitude = 1.0f);
struct AttentionOptions {
  float scale = 1.0f;
  float softcap = 0.0f; // 0: no cap
  // True: a query without a visible key gets the mean of all values (as in dllm-jax); false: it
  // gets 0.
  bool empty_average = false;
};
// Softmax attention: q (batch, queries, heads, dim), k (batch, keys, kv_heads, dim),
// v (batch, keys, kv_heads, vdim) -> (batch, queries, heads, vdim).
Value attention(Value q, Value k, Value v, const Mask& mask, const AttentionOptions& options);
// The result of attention, and the log-sum-exp of every query's visible scores, f32(batch, heads,
// queries), which is -infinity for a query without a visible key. Results over parts of the keys (a
// ring of ranks) are joined with it.
struct AttentionParts {
  Value out, log_sum_exp;
};
AttentionParts attention_parts(Value q, Value k, Value v, const Mask& mask,
                               const AttentionOptions& options);
// Attention of rows whose positions are cut over a mesh axis. k and v are this rank's part and pass
// from rank to rank. `mask` needs query_start and must not have two_stream or dense. Its per-query
// parameters cover this rank's positions, its per-key parameters the whole row. It does not use
// options.empty_average.
Value ring_attention(Value q, Value k, Value v, const Mask& mask, const AttentionOptions& options,
                     Axis axis, int64_t ranks);
// Multiplies each row by the matrices of its experts: y[r, j] = x[r] weight[experts[r, j]]^T.
// x (rows, in), experts i32(rows, choices), weight (experts, out, in) f32, bf16 or i8 with
// scale f32(experts, out) -> (rows, choices, out). Rows are grouped by expert, so each weight is
// read once. A number outside 0..experts-1 (an expert of another rank) gives zeros.
Value expert_linear(Value x, Value experts, Value weight, Value scale = {});
// Multiplies each row by one of several matrices: y[r] = x[r] weights[choice[r]]^T. x (rows, in),
// choice i32(rows), weights (out, in) each -> (rows, out). A choice that is none of them gives 0.
Value linear_by_row(Value x, Value choice, const std::vector<Value>& weights);
// act(x). kind: silu, gelu, gelu_tanh or relu.
Value activation(Value x, const std::string& kind);
// act(gate) * up
Value gated_activation(Value gate, Value up, const std::string& kind);
// Returns the negative log-likelihood f32(capacity) of targets under softmax(x w^T + bias), without
// storing (rows, vocab). x (capacity, in), weight (vocab, in), targets i32(capacity). count: i32
// scalar, the rows in use; undefined means all. Rows from count on and rows with a target < 0 give
// 0. softcap > 0: logits are softcap * tanh(logits / softcap), as in Gemma 2.
Value linear_cross_entropy(Value x, Value weight, Value bias, Value scale, Value targets,
                           Value count, float softcap = 0.0f);
// Returns linear_cross_entropy and the log-sum-exp of the logits of every row that counts. A head
// whose vocabulary is cut over ranks joins the parts with it (lse - nll is the logit of the
// target).
struct CrossEntropy {
  Value nll, log_sum_exp; // f32(capacity)
};
CrossEntropy linear_cross_entropy_parts(Value x, Value weight, Value bias, Value scale,
                                        Value targets, Value count, float softcap = 0.0f);
// linear_cross_entropy of a head whose vocabulary is cut over a mesh axis. weight (vocab / ranks,
// in), bias and scale are this rank's part; x, targets, count and the result are equal over the
// axis.
Value linear_cross_entropy_over(Axis axis, int64_t ranks, Value x, Value weight, Value bias,
                                Value scale, Value targets, Value count, float softcap = 0.0f);
// Filters of draws by name (graph/filters/filter.h) and their settings, in the order in which they
// act.
using FilterInputs = std::vector<std::pair<std::string, Value>>;
// Inputs of token_statistics. The draw is taken from softmax((x w^T + bias) / temperature) after
// the filters. The logits (rows, vocab) are never copied to the host.
struct TokenStatisticsInputs {
  Value x;              // (capacity, in)
  Value weight;         // (vocab, in)
  Value bias, scale;    // may be undefined
  Value count;          // i32 scalar: rows in use; may be undefined
  Value temperature;    // f32(capacity): > 0 divides logits for the draw; 0: the draw is the argmax
  FilterInputs filters; // (capacity) each; other filters are off
  Value uniform;        // f32(capacity): inverse-CDF position of the draw
  // f32(capacity, vocab), may be undefined. The draw is the token with the largest
  // logit / temperature + noise (Gumbel).
  Value noise;
  // u8(vocab), or u8(capacity, vocab) with a row for each row of x: 1 excludes a token from draw
  // and statistics; may be undefined.
  Value banned;
  bool shaped = false; // computes shaped_prob, shaped_margin and shaped_entropy
  // True: probabilities are exp(z - max) / sum, as in softmax, instead of exp(z - log_sum_exp).
  // They are then exact to the last bit also for large logits, which soft parallel decoding needs
  // because it computes with 1 - p.
  bool as_softmax = false;
  float softcap = 0.0f; // as in linear_cross_entropy
};
// Statistics of every row at temperature 1 without filters. The shaped statistics are computed
// after temperature and filters, and are 0 unless `shaped` is set.
struct TokenStatistics {
  Value argmax;         // i32(capacity)
  Value max_prob;       // f32(capacity): probability of argmax
  Value log_sum_exp;    // f32(capacity)
  Value entropy;        // f32(capacity), in nats
  Value top_ids;        // i32(capacity, top)
  Value top_probs;      // f32(capacity, top)
  Value draw;           // i32(capacity)
  Value draw_prob;      // f32(capacity): probability of the draw
  Value shaped_prob;    // f32(capacity): probability of the draw
  Value shaped_margin;  // f32(capacity): largest probability minus the second
  Value shaped_entropy; // f32(capacity), in nats
};
TokenStatistics token_statistics(const TokenStatisticsInputs& inputs, int64_t top);
// One AdamW step (Loshchilov & Hutter 2019), elementwise. scalars f32(8): lr, beta1, beta2, eps,
// weight_decay, 1 - beta1^t, 1 - beta2^t, gradient scale (clip and normalizer). With gradient scale
// 0 the gradient counts as 0 even if it is not finite. decay false: weight_decay counts as 0.
struct AdamW {
  Value parameter, first, second;
};
AdamW adamw_update(Value parameter, Value gradient, Value first, Value second, Value scalars,
                   bool decay);
Value sum_of_squares(Value x); // f32 scalar; fixed chunks of 65536, added in order

// --- gradients ---
// Returns the gradient of `loss`, an f32 scalar, with respect to each value of wrt. The gradient of
// a value that does not reach the loss is zeros. Fails if a value reaches the loss only through a
// conversion to whole numbers.
std::vector<Value> gradients(Value loss, const std::vector<Value>& wrt);

} // namespace dllm::graph
