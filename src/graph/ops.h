#pragma once
// Every operation as a free function. Elementwise functions broadcast like numpy (a `broadcast` node is inserted);
// integer division and shifts are exact; comparisons give u8 (0 or 1). Axis -1 is the last. All fail with
// invalid_argument naming the op and the shapes. Layout of activations: (batch, seq, heads, head_dim).

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
// begin: one i32 scalar per axis; clamped so that the slice fits (StableHLO).
Value dynamic_slice(Value x, const std::vector<Value>& begin, std::vector<int64_t> size);
Value dynamic_update_slice(Value x, Value update, const std::vector<Value>& begin);

// --- elementwise ---
Value convert(Value x, DType dtype); // float to integer truncates toward zero
Value bitcast(Value x, DType dtype); // same element size
Value select(Value predicate, Value on_true, Value on_false); // predicate u8
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

// --- reductions and ordering; axes keep no extent unless keep ---
Value sum(Value x, std::vector<int64_t> axes, bool keep = false);
Value max(Value x, std::vector<int64_t> axes, bool keep = false);
Value min(Value x, std::vector<int64_t> axes, bool keep = false);
Value argmax(Value x, int64_t axis); // i32, lowest index wins
Value cumsum(Value x, int64_t axis);
struct TopK {
  Value values;
  Value indices;
};                                   // indices i32, lower index wins ties
TopK top_k(Value x, int64_t k);      // along the last axis, largest first
TopK sort(Value x, bool descending); // along the last axis, stable

// --- indexing ---
// rows of the first axis: table (n, ...), indices i32(...): result indices.shape + table.shape[1:]. Table may be bf16 or
// i8 with scale f32(n) (rows are widened to f32). Indices out of range are clamped.
Value take(Value table, Value indices, Value scale = {});
Value take_along(Value x, Value indices, int64_t axis); // numpy.take_along_axis
Value scatter_add(Value x, Value indices,
                  Value updates); // rows of the first axis; indices i32(m), updates (m, ...)
Value scatter_set(Value x, Value indices,
                  Value updates); // later rows win; an index out of range is dropped

// --- products ---
// Batched matrix product: leading axes equal or broadcast, (.., m, k) x (.., k, n).
Value dot(Value x, Value y);

// --- random, gradients, order ---
Value random_bits(Value key,
                  Shape shape); // key u32(2); threefry, partitionable counter layout; u32
Value random_uniform(Value key, Shape shape); // f32 in [0, 1)
Value stop_gradient(Value x);
Value barrier(Value x); // keeps passes from merging across

// --- compositions of the above ---
Value softcap(Value x, float cap); // cap * tanh(x / cap); cap 0: x
Value softmax(Value x, int64_t axis);
Value log_softmax(Value x, int64_t axis);
// log sum exp along `axis`, which is dropped. over: mesh axes that cut this dimension (a vocabulary over ranks); the result
// is equal over them. At least one element must be finite.
Value log_sum_exp(Value x, int64_t axis, AxisSet over = {});
Value softplus(Value x);
Value silu(Value x);
Value gelu(Value x, bool tanh_form);
Value mean(Value x, std::vector<int64_t> axes, bool keep = false);

// --- mesh: on one rank they change nothing but the axes ---
Value vary(Value x, AxisSet axes);
Value all_reduce(Value x, AxisSet axes);     // sum over ranks, in the order of ranks
Value all_reduce_max(Value x, AxisSet axes); // largest over ranks
// equal: the result is typed equal over the axis; without it, varying (weights that are gathered where they are used).
Value all_gather(Value x, Axis axis, int64_t dim, int64_t ranks, bool equal = false);
// The part of this rank when `dim` is cut over the axis: the opposite of all_gather, without an exchange.
Value own_part(Value x, Axis axis, int64_t dim, int64_t ranks);
Value reduce_scatter(Value x, Axis axis, int64_t dim, int64_t ranks);
Value all_to_all(Value x, Axis axis, int64_t split_dim, int64_t concat_dim, int64_t ranks);
Value permute(Value x, Axis axis, std::vector<int64_t> target_of_rank);
Value axis_index(Graph& graph, Axis axis); // i32 scalar

// --- control ---
// body inputs: carry..., per_layer element..., consts...; body outputs: next carry..., per-step results...
// carry: values of any type kept from step to step. per_layer: stacked (count, ...), one element a step. Steps run over
// begin <= i < end of the stacked axis (backward when reverse). Results: final carry..., stacked results (count, ...) (rows
// outside [begin, end) are zero). remat: the gradient recomputes the body instead of keeping its intermediate values.
// recompute: so many of them are computed again, those first that save most bytes for an operation. round_kept: f32 values that
// the gradient keeps are kept as bf16; statistics of rows, which operations give in addition to their result, stay f32.
struct ScanOptions {
  int64_t begin = 0;
  int64_t end = -1; // -1: count
  bool reverse = false;
  bool remat = false;
  int64_t recompute = 0;
  bool round_kept = false;
};
struct ScanResult {
  std::vector<Value> carry;
  std::vector<Value> stacked;
};
ScanResult scan(std::shared_ptr<const Graph> body, const std::vector<Value>& carry,
                const std::vector<Value>& per_layer, const std::vector<Value>& consts,
                int64_t count, const ScanOptions& options = {});
// cond: state -> u8 scalar, equal over every axis the body communicates on; body: state -> state. consts are passed to both
// after the state. No gradient.
std::vector<Value> while_loop(std::shared_ptr<const Graph> cond, std::shared_ptr<const Graph> body,
                              const std::vector<Value>& state,
                              const std::vector<Value>& consts = {});

// --- fused: one kernel on engines that have one, else decomposed ---
// y = x w^T + bias. x (..., in) f32; weight (out, in) f32, bf16 or i8; scale f32(out) for i8; bias f32(out).
Value linear(Value x, Value weight, Value bias = {}, Value scale = {});
Value rms_norm(Value x, Value weight, float eps); // over the last axis; weight may be undefined
Value layer_norm(Value x, Value weight, Value bias, float eps); // weight, bias may be undefined
// x (batch, seq, heads, dim), positions i32(batch, seq) or (seq), inv_freq f32(rotary / 2): the first `rotary` dims turn,
// half-split (i, i + rotary/2) or interleaved (2i, 2i + 1). amplitude multiplies cos and sin (YaRN).
Value rope(Value x, Value positions, Value inv_freq, bool interleaved = false,
           float amplitude = 1.0f);
// q (batch, queries, heads, dim), k (batch, keys, kv_heads, dim), v (batch, keys, kv_heads, vdim) -> (batch, queries, heads, vdim).
// softcap 0: none. empty_average: a query that sees no key averages all values (as dllm-jax); else its result is 0.
struct AttentionOptions {
  float scale = 1.0f;
  float softcap = 0.0f;
  bool empty_average = false;
};
Value attention(Value q, Value k, Value v, const Mask& mask, const AttentionOptions& options);
// The same, and the log-sum-exp of every query's visible scores, f32(batch, heads, queries): parts of the keys (a ring of
// ranks) are joined by it. -infinity for a query that sees nothing.
struct AttentionParts {
  Value out, log_sum_exp;
};
AttentionParts attention_parts(Value q, Value k, Value v, const Mask& mask,
                               const AttentionOptions& options);
// The same of rows whose positions are cut over a mesh axis: k and v are this rank's part, and go from rank to rank. mask has
// query_start, its parameters of queries are of this rank's, those of keys of whole rows; no two_stream, no dense.
Value ring_attention(Value q, Value k, Value v, const Mask& mask, const AttentionOptions& options,
                     Axis axis, int64_t ranks);
// One matrix per row, chosen by number: y[r, j] = x[r] weight[experts[r, j]]^T. x (rows, in), experts i32(rows, choices),
// weight (experts, out, in) f32, bf16 or i8 with scale f32(experts, out) -> (rows, choices, out). Rows are grouped by expert,
// every weight is read once. A number outside 0..experts-1 gives zeros: an expert of another rank.
Value expert_linear(Value x, Value experts, Value weight, Value scale = {});
// act(x); kind: silu | gelu | gelu_tanh | relu
Value activation(Value x, const std::string& kind);
// act(gate) * up
Value gated_activation(Value gate, Value up, const std::string& kind);
// Negative log likelihood of targets under softmax(x w^T + bias), never (rows, vocab). x (capacity, in), weight (vocab, in),
// targets i32(capacity); rows >= count (i32 scalar, may be undefined = all) and targets < 0 give 0. -> f32(capacity)
// softcap > 0: logits are softcap * tanh(logits / softcap), as in Gemma 2.
Value linear_cross_entropy(Value x, Value weight, Value bias, Value scale, Value targets,
                           Value count, float softcap = 0.0f);
// The same, and of every row that counts the log-sum-exp of its logits: a head whose vocabulary is cut over ranks joins
// them (lse - nll is the logit of the target).
struct CrossEntropy {
  Value nll, log_sum_exp; // f32(capacity)
};
CrossEntropy linear_cross_entropy_parts(Value x, Value weight, Value bias, Value scale,
                                        Value targets, Value count, float softcap = 0.0f);
// linear_cross_entropy of a head whose vocabulary is cut over a mesh axis: weight (vocab / ranks, in), bias and scale are this
// rank's part; x, targets and count are equal over the axis, and so is the result.
Value linear_cross_entropy_over(Axis axis, int64_t ranks, Value x, Value weight, Value bias,
                                Value scale, Value targets, Value count, float softcap = 0.0f);
// Statistics of softmax((x w^T + bias) / temperature) per row, never (rows, vocab) on the host.
struct TokenStatisticsInputs {
  Value x;           // (capacity, in)
  Value weight;      // (vocab, in)
  Value bias, scale; // may be undefined
  Value count;       // i32 scalar: rows in use; may be undefined
  Value temperature; // f32(capacity): > 0 divides logits for the draw; 0: the draw is the argmax
  Value top_k;       // i32(capacity), 0: off. Filters of the draw
  Value top_p;       // f32(capacity), 1: off
  Value uniform;     // f32(capacity): inverse-CDF position of the draw
  Value
      noise; // f32(capacity, vocab): added to logits / temperature, the largest sum is drawn (Gumbel); may be undefined
  Value banned; // u8(vocab): 1 = never drawn and out of every statistic; may be undefined
  bool nucleus_first = false; // top_p before top_k
  bool shaped =
      false; // fill the statistics of the shaped distribution: after temperature and filters
  // Probabilities are exp(z - max) / sum, as softmax makes them, in place of exp(z - log_sum_exp): exact to the last bit
  // also where logits are large, for what goes on computing with 1 - p (soft parallel decoding).
  bool as_softmax = false;
  float softcap = 0.0f; // as of linear_cross_entropy
};
struct TokenStatistics {
  Value argmax;      // i32(capacity)
  Value max_prob;    // f32(capacity): probability of argmax at temperature 1
  Value log_sum_exp; // f32(capacity), temperature 1
  Value entropy;     // f32(capacity), nats, temperature 1
  Value top_ids;     // i32(capacity, top)
  Value top_probs;   // f32(capacity, top), temperature 1
  Value draw;        // i32(capacity)
  Value draw_prob;   // f32(capacity): its probability at temperature 1 without filters
  Value
      shaped_prob; // f32(capacity): of the draw, after temperature and filters; like the next two 0 unless shaped
  Value shaped_margin;  // f32(capacity): largest probability less the second
  Value shaped_entropy; // f32(capacity), nats
};
TokenStatistics token_statistics(const TokenStatisticsInputs& inputs, int64_t top);
// One AdamW step (Loshchilov & Hutter 2019), elementwise. scalars f32(8): lr, beta1, beta2, eps, weight_decay, 1 - beta1^t,
// 1 - beta2^t, gradient scale (clip and normalizer; exactly 0: the gradient is taken as 0 even where it is not finite). decay
// false: weight_decay is taken as 0.
struct AdamW {
  Value parameter, first, second;
};
AdamW adamw_update(Value parameter, Value gradient, Value first, Value second, Value scalars,
                   bool decay);
Value sum_of_squares(Value x); // f32 scalar; fixed chunks of 65536, summed in order

// --- gradients ---
// d loss / d each of wrt; loss is an f32 scalar. A wrt that does not reach the loss gives zeros; one
// that reaches it only through a conversion to whole numbers is an error.
std::vector<Value> gradients(Value loss, const std::vector<Value>& wrt);

} // namespace dllm::graph
