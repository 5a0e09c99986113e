#ifndef DLLM_TOKENIZER_H
#define DLLM_TOKENIZER_H
/* dllm/tokenizer.h -- text to ids and back.
 *
 *     int64_t count = 0;
 *     dllm_tokenizer_load("path/to/folder", NULL, &tok, err);
 *     dllm_tokenizer_encode(tok, text, size, NULL, 0, &count, err);     answers the need
 *     ids = malloc(count * sizeof *ids);
 *     dllm_tokenizer_encode(tok, text, size, ids, count, &count, err);
 *
 * Lifetime   stands alone; datasets keep their tokenizer alive.
 * Threads    a tokenizer never changes: many threads may use one.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Loads a tokenizer from tokenizer.json or the vocabulary of a GGUF file.
 *
 *   path   not NULL, a tokenizer.json, a folder that holds one, a .gguf file, a checkpoint folder,
 *          or a run folder, which stands for its latest whole checkpoint
 *   opts   NULL: defaults; kind "tokenizer"
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_DATA_LOSS for a damaged file; DLLM_UNIMPLEMENTED for a
 *          kind of tokenizer or normalizer we do not have, the message names it
 * Owns     out is yours
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_load(const char *path, const dllm_options *opts,
                                         dllm_tokenizer **out, dllm_error *err);

/* Loads a tokenizer from files held in memory.
 *
 *   source   not NULL, holds tokenizer.json or one .gguf file
 *   opts     NULL: defaults; kind "tokenizer"
 *   out      not NULL
 *
 * Returns  as dllm_tokenizer_load
 * Owns     out is yours
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_load_source(const dllm_source *source, const dllm_options *opts,
                                                dllm_tokenizer **out, dllm_error *err);

/* Trains a byte-level BPE tokenizer; the same text and options give the same tokenizer.
 *
 *   text   not NULL, a dataset opened without a tokenizer
 *   opts   NULL: defaults; kind "tokenizer_train": vocab_size, min_count, special_tokens (list)
 *   task   NULL, or checked every few milliseconds; progress in merges
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_FAILED_PRECONDITION when the dataset holds ids instead of text;
 *          DLLM_CANCELLED
 * Owns     out is yours
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_train(const dllm_dataset *text, const dllm_options *opts,
                                          dllm_task *task, dllm_tokenizer **out, dllm_error *err);

/* Saves a tokenizer as a tokenizer.json that Hugging Face's tools read.
 *
 *   tok    not NULL
 *   path   not NULL, a file, or a folder to put tokenizer.json into
 *
 * Returns  DLLM_OK; DLLM_ALREADY_EXISTS when a file is there that this function did not write;
 *          DLLM_PERMISSION_DENIED; DLLM_RESOURCE_EXHAUSTED when the disk is full;
 *          DLLM_NOT_FOUND when the folder above does not exist
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_save(const dllm_tokenizer *tok, const char *path,
                                         dllm_error *err);

/* Gives a tokenizer back.
 *
 *   tok   NULL: does nothing
 *
 * Returns  nothing
 * Owns     tok is gone
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_tokenizer_release(dllm_tokenizer *tok);

/* Counts the ids: the largest id plus one, added tokens included.
 *
 *   tok   NULL: 0
 *
 * Returns  ids, 1 or more
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int64_t dllm_tokenizer_size(const dllm_tokenizer *tok);

/* Finds the id of one token by its exact text, such as "<|endoftext|>".
 *
 * The names "mask", "bos", "eos" and "pad" stand for the tokenizer's own special tokens.
 *
 *   tok    not NULL
 *   name   not NULL
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_id(const dllm_tokenizer *tok, const char *name, int32_t *out,
                                       dllm_error *err);

/* Turns text into ids; special tokens in the text are recognized.
 *
 *   tok         not NULL
 *   text        NULL only when size is 0; UTF-8, bytes that are not are kept as bytes
 *   size        bytes of text, 0 or more
 *   dst         NULL only when dst_count is 0
 *   dst_count   room in dst, 0 or more
 *   out_count   not NULL; the number of ids, also when dst is too small
 *
 * Returns  DLLM_OK; DLLM_OUT_OF_RANGE when dst is too small, out_count has the need
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_encode(const dllm_tokenizer *tok, const char *text,
                                           int64_t size, int32_t *dst, int64_t dst_count,
                                           int64_t *out_count, dllm_error *err);

/* Turns a long text into a batch of ids and can be cancelled; else as dllm_tokenizer_encode.
 *
 *   tok    not NULL
 *   text   NULL only when size is 0; UTF-8, bytes that are not are kept as bytes
 *   size   bytes of text, 0 or more
 *   task   NULL, or checked every few milliseconds
 *   out    not NULL; "ids" i32 (1, n)
 *
 * Returns  DLLM_OK; DLLM_CANCELLED; DLLM_DEADLINE_EXCEEDED
 * Owns     out is yours
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_encode_task(const dllm_tokenizer *tok, const char *text,
                                                int64_t size, dllm_task *task, dllm_batch **out,
                                                dllm_error *err);

/* Turns ids into text; bytes that are no UTF-8 become U+FFFD.
 *
 *   tok     not NULL
 *   ids     NULL only when count is 0
 *   count   ids, 0 or more
 *   out     not NULL
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for an id out of the vocabulary
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_decode(const dllm_tokenizer *tok, const int32_t *ids,
                                           int64_t count, dllm_buffer *out, dllm_error *err);

/* Turns as many ids into text as make whole characters; for showing text while it grows.
 *
 *   tok        not NULL
 *   ids        NULL only when count is 0
 *   count      ids, 0 or more
 *   out_text   not NULL; the text, never half a character
 *   out_used   not NULL; ids whose text is in out_text, keep the rest for the next call
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for an id out of the vocabulary
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_decode_stream(const dllm_tokenizer *tok, const int32_t *ids,
                                                  int64_t count, dllm_buffer *out_text,
                                                  int64_t *out_used, dllm_error *err);

/* Writes a conversation as a chat template has it: ids, and who says what.
 *
 * The template comes from chat_template.jinja or tokenizer_config.json beside the tokenizer, from the
 * GGUF file, or from the options. Its own special tokens count; those a message spells are plain text.
 *
 *   tok             not NULL
 *   messages_json   not NULL, a list of {"role", "content"} or an object with "messages", "tools"
 *   size            bytes of messages_json, 0 or more
 *   opts            NULL: defaults; kind "chat": template, name, add_generation_prompt, tools,
 *                   variables
 *   out             not NULL; "ids" i32 (1, n) and "keep" u8 (1, n): 0 where the assistant speaks,
 *                   what training learns, 1 elsewhere
 *
 * Returns  DLLM_OK; DLLM_FAILED_PRECONDITION when there is no template; DLLM_INVALID_ARGUMENT for
 *          messages the template refuses, with its words, or a template that fails, with line and
 *          tag; DLLM_UNIMPLEMENTED for a statement or filter we do not have; DLLM_RESOURCE_EXHAUSTED
 *          when the template does not end; DLLM_DATA_LOSS for broken JSON
 * Owns     out is yours
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_chat(const dllm_tokenizer *tok, const char *messages_json,
                                         int64_t size, const dllm_options *opts, dllm_batch **out,
                                         dllm_error *err);

/* Writes a long conversation as a chat template has it and can be cancelled; else as
 * dllm_tokenizer_chat.
 *
 *   tok             not NULL
 *   messages_json   not NULL, a list of {"role", "content"} or an object with "messages", "tools"
 *   size            bytes of messages_json, 0 or more
 *   opts            NULL: defaults; kind "chat"
 *   task            NULL, or checked every few milliseconds
 *   out             not NULL; as of dllm_tokenizer_chat
 *
 * Returns  as dllm_tokenizer_chat; DLLM_CANCELLED; DLLM_DEADLINE_EXCEEDED
 * Owns     out is yours
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_chat_task(const dllm_tokenizer *tok, const char *messages_json,
                                              int64_t size, const dllm_options *opts,
                                              dllm_task *task, dllm_batch **out, dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
