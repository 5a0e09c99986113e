#ifndef DLLM_ANSWER_H
#define DLLM_ANSWER_H
/* dllm/answer.h -- the text of a canvas while it is decided.
 *
 * An answer turns the ids and states of a canvas into text, up to an end token or a stop text. It
 * returns pieces that no later step changes, or one text per position for a picture. It needs a
 * tokenizer and no decoder, so it works with any loop that decides a canvas:
 *
 *     dllm_answer *a;
 *     dllm_buffer *more = dllm_buffer_new();
 *     int32_t end = DLLM_ANSWER_OPEN;
 *     dllm_options_new("answer", &opts, err);
 *     dllm_options_set_i64(opts, "begin", prompt_count, err);
 *     dllm_answer_new(tok, opts, &a, err);
 *     while (end == DLLM_ANSWER_OPEN) {
 *       if (dllm_decoder_step(decoder, NULL, NULL, err)) return fail(err);
 *       dllm_decoder_ids(decoder, 0, ids, room, &count, err);
 *       dllm_decoder_states(decoder, 0, states, room, &count, err);
 *       dllm_answer_update(a, ids, states, count, &end, err);
 *       dllm_answer_next(a, more, err);
 *       fputs((const char *)dllm_buffer_data(more), stdout);
 *     }
 *
 * Positions that change
 *   The policies of this library change masked and provisional positions alone. A position that is
 *   DLLM_FINAL or DLLM_FIXED keeps its token. Policies that revise tokens (remasking, drafts,
 *   edits) have them provisional until their block, or the whole canvas, is decided. So
 *   dllm_answer_next returns text later under these policies, and all of it at once under some.
 *   Policy "editflow" also changes the number of positions. With its option edit_prompt the prompt
 *   changes too, and then only begin = -1 fits.
 *   A loop of the host may open final positions again. dllm_answer_text always follows the canvas.
 *   dllm_answer_next cannot take a text back: it returns nothing until the positions have the same
 *   tokens again, and fails when they have other tokens.
 *
 * Lifetime   an answer keeps its tokenizer alive.
 * Threads    one call at a time per answer.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Creates an answer without a canvas.
 *
 * The options of kind "answer":
 *
 *     begin        -1, 0 or more     positions of the canvas before the answer; -1: the whole
 *                                    canvas is the answer, and nothing but its last position
 *                                    ends it, as for a text with holes; default 0
 *     prompt       before            the text continues the prompt: it keeps the space that a
 *                                    word begins with
 *                  apart             the text is one of its own, as of a turn in a chat
 *                  included          the text begins with the text of the prompt
 *     end_tokens   0 1               1: the end tokens of the tokenizer's files end the answer
 *     stop         list of ids       further token ids that end the answer
 *     stop_texts   list of texts     texts that end the answer, not empty
 *     stop_pattern text              a regular expression: a part of the answer that matches it
 *                                    ends the answer, without ^ and $
 *
 * The text ends before an end token, a stop text and a part that matches. Of several stop texts and
 * parts the one that is complete first counts, so the text does not depend on the number of
 * updates: "[0-9]+" ends an answer at its first digit. The options of group "end" in
 * dllm_options_schema("answer") are all rules that end an answer by its text.
 *
 *   tok    not NULL
 *   opts   NULL: defaults; kind "answer": begin, prompt, end_tokens, stop (list),
 *          stop_texts (list), stop_pattern
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for a stop that is not an id, for an empty stop text, and
 *          for a pattern that cannot be read, matches an empty text or needs too many states
 * Owns     caller owns out, which keeps tok
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_answer_new(const dllm_tokenizer *tok, const dllm_options *opts,
                                     dllm_answer **out, dllm_error *err);

/** Releases an answer.
 *
 *   answer   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases answer
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_answer_release(dllm_answer *answer);

/** Sets the canvas as it is now. The other functions read this canvas.
 *
 * Positions count up to the first one of the answer that is masked or provisional. Final positions
 * after it, which many policies decide early, count later.
 *
 *   answer    not NULL
 *   ids       NULL only when count is 0; ids out of the vocabulary have no text
 *   states    NULL only when count is 0; DLLM_MASKED to DLLM_FIXED for each position
 *   count     positions, 0 or more; a canvas of fewer positions than option begin is all prompt
 *   out_end   NULL, or gets one of DLLM_ANSWER_OPEN to DLLM_ANSWER_STOP_TEXT
 *
 * Returns  DLLM_OK
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_answer_update(dllm_answer *answer, const int32_t *ids,
                                        const uint8_t *states, int64_t count, int32_t *out_end,
                                        dllm_error *err);

/** Converts the canvas to text up to the first masked position or the end of the answer.
 *
 * Provisional tokens are in the text, so a later text may differ. Bytes at the end that begin a
 * character are left out until the answer is over; then they become U+FFFD.
 *
 *   answer   not NULL
 *   out      not NULL; empty before the first dllm_answer_update
 *
 * Returns  DLLM_OK
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_answer_text(dllm_answer *answer, dllm_buffer *out, dllm_error *err);

/** Returns the final text that is new since the last call.
 *
 * All these texts together are the text of dllm_answer_text once the answer is over. A text has
 * whole characters. It leaves out what may become part of a stop text, and characters that a later
 * token may change.
 *
 *   answer   not NULL
 *   out      not NULL; empty when nothing is new
 *
 * Returns  DLLM_OK; DLLM_FAILED_PRECONDITION when final positions have changed whose text was
 *          returned
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_answer_next(dllm_answer *answer, dllm_buffer *out, dllm_error *err);

/** Converts the canvas to one text per position, for a picture; the prompt is part of it.
 *
 * A token has its text inside of a sentence, with the space that it begins with. A special token
 * without text has its role ("<eos>"), a token without any text its id in angle brackets. A
 * character of several tokens is at the first of them, and the others have no text. Masked
 * positions have no text.
 *
 *   answer      not NULL
 *   out_text    not NULL; the texts, one after another
 *   dst         NULL only when dst_count is 0; for each position the byte of out_text where its
 *               text ends and the next one begins
 *   dst_count   room in dst, 0 or more
 *   out_count   not NULL; positions, also when dst is too small
 *
 * Returns  DLLM_OK; DLLM_OUT_OF_RANGE when dst is too small, out_count has the needed count
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_answer_cells(dllm_answer *answer, dllm_buffer *out_text, int64_t *dst,
                                       int64_t dst_count, int64_t *out_count, dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
