#ifndef DLLM_OBJECTIVE_H
#define DLLM_OBJECTIVE_H
/* dllm/objective.h -- how a batch is corrupted and how the loss is computed.
 *
 * An objective has two parts. `prepare` turns token rows into named arrays on the host (ids with
 * masks, targets, weights), and a loss reads these arrays. A batch that holds targets and weights
 * is not prepared again, so a test or a script can inject any mask, weight or target. A batch with
 * only one of targets and weights is an error.
 *
 *     dllm_objective_new("mdlm", schedule, NULL, &objective, err);
 *     dllm_objective_prepare(objective, model, batch, 7, step, &prepared, err);
 *     dllm_objective_loss(objective, model, prepared, 7, NULL, &loss, err);
 *
 * The objectives:
 *
 *     "mdlm"             masked diffusion, a time per row
 *     "llada_sft"        as "mdlm", for answers to prompts; each answer has the same weight
 *     "bd3lm"            block diffusion: rows [noised | clean], a time per block
 *     "cola"             latent diffusion in blocks: each token is encoded into a vector
 *     "dream"            masked diffusion with shift 1; the context sets the weights (CART)
 *     "dmax"             blocks at one high noise level; predictions replace masks of some rows
 *     "uniform"          random tokens of the vocabulary replace tokens; continuous-time bound
 *     "editflow"         edit flows: rates of insertions, deletions and substitutions
 *     "embedding"        Gaussian noise is added to the embeddings of tokens
 *     "nano"             masked diffusion of nano-dlm, discrete times
 *     "open_dllm"        masked diffusion of Open-dLLM; tokens that the model predicts count more
 *     "diffusion_gemma"  a causal text, then a canvas with one block of uniform noise
 *     "grpo"             policy gradients of answers
 *     "ldlm"             latent diffusion: vectors that a text is encoded into are denoised
 *     "vfm"              a mask filler gives the input of a completion, from its prompt
 *     "ar"               next token
 *     "token_ce"         ids, targets and weights are given by the caller
 *
 * Details of some objectives:
 *
 *     "editflow"         The edits lead from a start (start masks empty, start_length) to the text,
 *                        with the fewest edits. Tokens of a gap come in any order, or the middle or
 *                        the left one first (insert_order). Schedules: kappa_cubic, kappa_linear,
 *                        kappa_cosine. The model needs the heads of edits (dllm_model_load, heads).
 *                        The batch may hold start_ids i32(batch, any); a negative id ends a start.
 *                        Decoding policy "editflow".
 *     "embedding"        Continuous diffusion with self-conditioning (CDCD, Dieleman et al. 2022).
 *                        The normed embedding e of a token becomes
 *                        sqrt(alpha(t)) e + sqrt(1 - alpha(t)) noise, and the loss is the cross
 *                        entropy of the token. Part "inlet" of the model, which a trainer adds,
 *                        makes the base's input of it. Options: self_condition (share of the rows
 *                        that read the model's own estimate), prefix (share of the rows with a
 *                        prefix without noise). The loss is not a likelihood. Decoding policy
 *                        "embedding".
 *     "cola"             Cola DLM (arXiv 2605.06548). The model has the parts encoder, decoder and
 *                        prior, which a trainer adds where they are missing. A token has a latent
 *                        z of latent_dim numbers with a mean and a variance. In blocks of
 *                        block_length: loss = CE(decoder(z)) + kl_weight KL(z | N(0, 1))
 *                        + prior_weight |prior(z_t, t, blocks before) - (e - z)|^2, where
 *                        z_t = (1 - t) z + t e. source: tokens (embeddings of the base, which is
 *                        trained) or states (of layer source_layer of the base, which stays,
 *                        train_base). prior_weight 0 trains encoder and decoder alone; a later run
 *                        may freeze them. stop_latents, drop_prefix (for guidance), time_draw,
 *                        mask_weight and mask_share (tokens that are masked for the encoder).
 *                        Parts of the loss: reconstruction, kl, flow, masked, latent_square. The
 *                        loss bounds no likelihood: with kl_weight 1, reconstruction + kl bounds
 *                        that of a text whose latents are N(0, 1), not drawn from the prior.
 *                        Decoding policy "cola".
 *     "open_dllm"        Options: curriculum, min_snr_gamma, anti_repetition, repetition.
 *     trajectories       mdlm, open_dllm, llada_sft and dream read array trajectory of a batch.
 *                        They mask the tokens that one row of it hides. A mask ratio chooses the
 *                        row. Options:
 *                        trajectory_min_ratio, trajectory_max_ratio, trajectory_ramp (updates from
 *                        the first to the second), trajectory_blocks (block lengths; one block of
 *                        each row is trained).
 *     "diffusion_gemma"  For models with a canvas. In a share of the rows the canvas is conditioned
 *                        on its own prediction. Decoding policy "diffusion_gemma".
 *     "ldlm"             LDLM (arXiv 2605.07933). The model has the parts encoder, decoder, reader
 *                        and denoiser, which a trainer adds where they are missing. The base stays
 *                        as it is (train_base). With h the states of the base, z0 = encoder(h)
 *                        (batch, latents, latent_dim) and z_t = sqrt(alpha) z0 + sqrt(1 - alpha) e:
 *                        loss = mean (denoiser(z_t, t) - z0)^2 + states_weight mean (h' - h)^2
 *                        + tokens_weight CE(reader(h')), where h' = decoder(z0 + decoder_noise e').
 *                        h is normed by its running mean and variance. Times follow the losses so
 *                        far (time_bins, time_interval). Schedule tangent. Sizes: latents,
 *                        latent_dim, positions (longest row), depth, reader_depth, denoiser_depth.
 *                        prompt: share of rows with a prompt, whose states the denoiser looks at.
 *                        Array keep of a batch names its tokens, which
 *                        the reader is not trained on. A row holds one text.
 *     "grpo"             The batch holds advantages f32(batch). It may hold old_log_probs and
 *                        reference_log_probs, f32(batch, seq).
 *     "vfm"              Variational flow maps. Rows have a prompt (keep, or prompt_length), else a
 *                        random prefix. The filler is trained, and the model with train_base. The
 *                        loss is that of the completion / (2 tau^2), of the prompt / (2 sigma^2),
 *                        kl_weight (grows over kl_warmup updates) times the divergence of the
 *                        filler from a standard normal, and mu_reg times the squared distance of
 *                        its means' lengths from embedding_length. With refinement a random part
 *                        of a completion is visible. Parts of the loss: data, observed, kl,
 *                        mean_norm, regularization, repetition (report_repetition: the share of
 *                        equal neighbouring predictions).
 *
 * Every objective over rows with mask tokens may train a mask filler next to the model. Its options
 * are group "filler": networks that change the input of the model at mask tokens, and that the
 * model keeps. filler small and unet add to the embedding, adapter replaces it, and auto is the
 * model's own filler. Options: filler_alpha, filler_grad_scale; for a new one filler_scale,
 * filler_layers, filler_heads, filler_ffn, filler_hidden, filler_gaussian, filler_context (visible
 * prompt), filler_spherical. The loss has the part filler_norm. Such a model is decoded without
 * kept K and V.
 *
 * Every objective whose tokens keep their places (mdlm, llada_sft, dream, open_dllm, nano, vfm,
 * uniform, ar, token_ce) may add terms to its loss. Their options are group "term" of
 * dllm_options_schema("objective"). Option teacher names their teacher: base (the model without its
 * adapters), model (the part "teacher" of dllm_model_add_network), or rows (arrays of the batch).
 * Options teacher_attention (auto causal bidirectional block_causal) and teacher_input (auto clean
 * noised) say how it reads a row. No gradient reaches the teacher. A held-out loss leaves the terms
 * out. A prepared batch then has clean_ids i32(batch, seq), the tokens before they were corrupted.
 * Option own_weight weighs the objective's own loss; 0: the terms alone are trained.
 *
 *     align     weight of the distance between hidden states of student and teacher. The teacher
 *               sees the clean text. Options: align_kind (cosine angular infonce blocks),
 *               align_layers, align_positions (visible supervised all), align_share,
 *               align_layer_count, align_layer_exp, align_margin (radians), align_temperature,
 *               align_blocks, align_final, align_steps. Both models have the same number of layers
 *               and the same width. Arrays for rows: hidden_layer_<i> f32(batch, seq, hidden).
 *     distill   weight of the divergence of the distributions of the tokens that the loss counts,
 *               in nats. Options: distill_kind (forward reverse js), distill_temperature. Both
 *               models have the same vocabulary. Arrays for rows: teacher_top_ids i32(batch, seq,
 *               k) and teacher_top_logits f32(batch, seq, k). distill_steps k: the
 *               student matches k steps of the teacher in one, where distill_of steps decode a row
 *               (mdlm, open_dllm, llada_sft, dream, nano). A token is compared with the step that
 *               reveals it; with distill_rest tokens that are still masked with the last step.
 *     cola      weight of the diffusion of latents that two encoders make of hidden states. The
 *               term trains the parts cola_global, cola_local and cola_denoiser, which a trainer
 *               adds. Options: cola_kind (block_causal card fast_block), cola_prediction (v x0),
 *               cola_layer, cola_detach, cola_global, cola_local, cola_block, cola_encoder_layers,
 *               cola_layers, cola_heads, cola_tail. Nothing is decoded from the latents. The metric
 *               cola_std falls to 0 when all latents become equal.
 *     consistency
 *               weight of the mean of max(0, cos) between the vectors that a mask filler gives
 *               neighbouring masks.
 *     entropy   weight of the entropy of predictions that are right, in nats, for models that
 *               decode many tokens at once. Option: entropy_temperature.
 *
 * Lifetime   an objective keeps its schedule alive.
 * Threads    prepare may run on several threads at once; loss: one call at a time per model.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates an objective by name.
 *
 *   name       not NULL, one of the names above; dllm_registry_name("objective", i) lists them
 *   schedule   NULL: linear, kappa_cubic for editflow, nano_cosine for nano, tangent for ldlm;
 *              objectives without noise ignore it
 *   opts       NULL: defaults; kind "objective" or "objective:<name>": attention, shift,
 *              block_length, mask_id, compat, those of group "filler", those of group "term",
 *              and the objective's own options
 *   out        not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND, the hint names the nearest; DLLM_INVALID_ARGUMENT for options
 *          that do not fit together, such as align_kind without align
 * Owns     caller owns out, which keeps schedule
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_objective_new(const char *name, const dllm_schedule *schedule,
                                        const dllm_options *opts, dllm_objective **out,
                                        dllm_error *err);

/** Releases an objective.
 *
 *   objective   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases objective
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_objective_release(dllm_objective *objective);

/** Draws the noise of one step and fills the arrays that the loss reads.
 *
 * A batch that holds targets and weights is returned unchanged. Else the result holds all arrays of
 * the batch (prompt_length as keep) and ids (with masks), targets and weights, each (batch, seq),
 * and arrays of the objective such as t (batch). The noise depends only on seed, step and the
 * global row (array rows).
 *
 *   objective   not NULL
 *   model       NULL: mask id and shift come from the objective's options, ids are not checked;
 *               else the model's mask id, shift and vocabulary are used where the options do not
 *               set them
 *   batch       not NULL, holds ids (batch, seq) i32
 *   seed        any number
 *   step        0 or more
 *   out         not NULL
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for a missing array, a wrong shape or a number out of
 *          range, and for an array that the objective does not read; DLLM_FAILED_PRECONDITION when
 *          the objective needs a mask id and there is none
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_objective_prepare(const dllm_objective *objective,
                                            const dllm_model *model, const dllm_batch *batch,
                                            int64_t seed, int64_t step, dllm_batch **out,
                                            dllm_error *err);

/** Computes the loss of one batch without changing anything.
 *
 * Every call compiles a program for the shapes of its batch. For many batches use
 * dllm_trainer_eval, which compiles once.
 *
 *   objective   not NULL
 *   model       not NULL
 *   batch       not NULL, token rows or prepared arrays
 *   seed        any number; used when the batch is not prepared
 *   task        NULL, or checked every few milliseconds
 *   out_loss    not NULL; in nats, normalized as the objective defines
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for a missing array, a wrong shape or a number out of
 *          range; DLLM_ABORTED when the weights are lost; DLLM_CANCELLED
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_objective_loss(dllm_objective *objective, dllm_model *model,
                                         const dllm_batch *batch, int64_t seed, dllm_task *task,
                                         double *out_loss, dllm_error *err);

/** Computes the loss of every row of a batch separately: bounds with a standard error, scores of
 * answers.
 *
 * With norm "token" of an objective, the count of a row is the number of its trained tokens. The
 * sum of all sums over the sum of all counts is then the mean loss per token. A row whose prompt
 * has keep 1 gives the bound of its answer.
 *
 * The noise depends on seed and the global row (array rows), so equal rows of a batch get different
 * noise. Each row runs as a batch of its own. Every call compiles a program, so pass all rows in
 * one batch.
 *
 *   objective   not NULL
 *   model       not NULL
 *   batch       not NULL, token rows or prepared arrays
 *   seed        any number; used when the batch is not prepared
 *   task        NULL, or checked every few milliseconds; progress in rows
 *   out         not NULL; "sums" f64 (rows) in nats, not normalized, and "counts" f64 (rows), their
 *               normalizers
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for a missing array, a wrong shape or a number out of
 *          range; DLLM_FAILED_PRECONDITION when the objective needs a mask id and there is none;
 *          DLLM_ABORTED when the weights are lost; DLLM_CANCELLED
 * Owns     caller owns out
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_objective_row_losses(dllm_objective *objective, dllm_model *model,
                                               const dllm_batch *batch, int64_t seed,
                                               dllm_task *task, dllm_batch **out, dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
