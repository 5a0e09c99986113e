#ifndef DLLM_TOKENIZER_H
#define DLLM_TOKENIZER_H
/* dllm/tokenizer.h -- convert text to ids and back.
 *
 *     int64_t count = 0;
 *     dllm_tokenizer_load("path/to/folder", NULL, &tok, err);
 *     dllm_tokenizer_encode(tok, text, size, NULL, 0, &count, err);     gets the number of ids
 *     ids = malloc(count * sizeof *ids);
 *     dllm_tokenizer_encode(tok, text, size, ids, count, &count, err);
 *
 * Lifetime   a tokenizer needs no other object; datasets keep their tokenizer alive.
 * Threads    a tokenizer never changes: many threads may use one.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Loads a tokenizer from tokenizer.json or the vocabulary of a GGUF file.
 *
 * The options of kind "tokenizer":
 *
 *     bos, eos, pad, mask   texts of these tokens; empty: as the file
 *     add_tokens            list of special tokens to add when the file lacks them
 *     add_special           encode puts the file's special tokens around a text
 *     add_start             encode puts only the special tokens at the beginning, for prompts; the
 *                           post-processor or add_bos_token of the file names them
 *     parse_special         special tokens that are written in a text count as special tokens
 *     skip_special          decode leaves special tokens out
 *     chat_template         the chat template: a name (chatml llama3 qwen alpaca) or the text of
 *                           one; empty: as the files
 *
 *   path   not NULL, a tokenizer.json, a folder that holds one, a .gguf file, a checkpoint folder,
 *          a run folder, which means its latest complete checkpoint, or a name of the hub whose
 *          files are in the cache (dllm/hub.h)
 *   opts   NULL: defaults; kind "tokenizer": bos, eos, pad, mask, add_tokens (list), add_special,
 *          add_start, parse_special, skip_special, chat_template
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_DATA_LOSS for a damaged file; DLLM_UNIMPLEMENTED for a
 *          kind of tokenizer or normalizer that dllm does not have, the message names it;
 *          DLLM_FAILED_PRECONDITION when the tokenizer lacks tokens of a named chat_template
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_load(const char *path, const dllm_options *opts,
                                         dllm_tokenizer **out, dllm_error *err);

/** Loads a tokenizer; a task can cancel it. Else as dllm_tokenizer_load.
 *
 *   path   not NULL
 *   opts   NULL: defaults; kind "tokenizer"
 *   task   NULL, or checked every few milliseconds while an object store is read; files on a disk
 *          are read without checks
 *   out    not NULL
 *
 * Returns  as dllm_tokenizer_load; DLLM_CANCELLED; DLLM_DEADLINE_EXCEEDED
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_load_task(const char *path, const dllm_options *opts,
                                              dllm_task *task, dllm_tokenizer **out,
                                              dllm_error *err);

/** Loads a tokenizer from files held in memory.
 *
 *   source   not NULL, holds tokenizer.json or one .gguf file
 *   opts     NULL: defaults; kind "tokenizer"
 *   out      not NULL
 *
 * Returns  as dllm_tokenizer_load
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_load_source(const dllm_source *source, const dllm_options *opts,
                                                dllm_tokenizer **out, dllm_error *err);

/** Trains a byte-level BPE tokenizer; the same text and options give the same tokenizer.
 *
 *   text   not NULL, a dataset opened without a tokenizer
 *   opts   NULL: defaults; kind "tokenizer_train": vocab_size, min_count, special_tokens (list),
 *          chat_template (auto none chatml llama3 qwen alpaca, or the text of a template, whose
 *          tokens <|word|> become special; auto: chatml for texts of conversations)
 *   task   NULL, or checked every few milliseconds; progress in merges
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_FAILED_PRECONDITION when the dataset holds ids instead of text;
 *          DLLM_CANCELLED
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_train(const dllm_dataset *text, const dllm_options *opts,
                                          dllm_task *task, dllm_tokenizer **out, dllm_error *err);

/** Saves a tokenizer as a tokenizer.json that the tools of Hugging Face can read.
 *
 *   tok    not NULL
 *   path   not NULL, a file, or a folder to put tokenizer.json into
 *
 * Returns  DLLM_OK; DLLM_ALREADY_EXISTS when a file exists that this function did not write;
 *          DLLM_PERMISSION_DENIED; DLLM_RESOURCE_EXHAUSTED when the disk is full;
 *          DLLM_NOT_FOUND when the folder above does not exist
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_save(const dllm_tokenizer *tok, const char *path,
                                         dllm_error *err);

/** Releases a tokenizer.
 *
 *   tok   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases tok
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_tokenizer_release(dllm_tokenizer *tok);

/** Returns the size of the vocabulary: the largest id plus one, added tokens included.
 *
 *   tok   NULL: 0
 *
 * Returns  ids, 1 or more
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int64_t dllm_tokenizer_size(const dllm_tokenizer *tok);

/** Finds the id of one token by its exact text, such as "<|endoftext|>".
 *
 * The names "mask", "bos", "eos" and "pad" mean the tokenizer's special tokens.
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

/** Converts text to ids; special tokens in the text are recognized.
 *
 *   tok         not NULL
 *   text        NULL only when size is 0; UTF-8; invalid bytes are kept as bytes
 *   size        bytes of text, 0 or more
 *   dst         NULL only when dst_count is 0
 *   dst_count   room in dst, 0 or more
 *   out_count   not NULL; the number of ids, also when dst is too small
 *
 * Returns  DLLM_OK; DLLM_OUT_OF_RANGE when dst is too small, out_count has the needed count
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_encode(const dllm_tokenizer *tok, const char *text,
                                           int64_t size, int32_t *dst, int64_t dst_count,
                                           int64_t *out_count, dllm_error *err);

/** Converts a long text to ids; a task can cancel it. Else as dllm_tokenizer_encode.
 *
 *   tok    not NULL
 *   text   NULL only when size is 0; UTF-8; invalid bytes are kept as bytes
 *   size   bytes of text, 0 or more
 *   task   NULL, or checked every few milliseconds
 *   out    not NULL; "ids" i32 (1, n)
 *
 * Returns  DLLM_OK; DLLM_CANCELLED; DLLM_DEADLINE_EXCEEDED
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_encode_task(const dllm_tokenizer *tok, const char *text,
                                                int64_t size, dllm_task *task, dllm_batch **out,
                                                dllm_error *err);

/** Converts ids to text; bytes that are not valid UTF-8 become U+FFFD.
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

/** Converts the ids at the front that give whole characters, for text that is displayed while it
 * grows.
 *
 *   tok        not NULL
 *   ids        NULL only when count is 0
 *   count      ids, 0 or more
 *   out_text   not NULL; the text, never half a character
 *   out_used   not NULL; the number of ids whose text is in out_text; keep the other ids for the
 *              next call
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for an id out of the vocabulary
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_decode_stream(const dllm_tokenizer *tok, const int32_t *ids,
                                                  int64_t count, dllm_buffer *out_text,
                                                  int64_t *out_used, dllm_error *err);

/** Renders a conversation with a chat template and converts it to ids.
 *
 * The template comes from chat_template.jinja or tokenizer_config.json in the tokenizer's folder,
 * from the GGUF file, or from option template. Option template is a name (chatml llama3 qwen
 * alpaca) or the text of a template. Special tokens are recognized in the template, not in
 * messages. Messages may have the members from and value in place of role and content.
 *
 *   tok             not NULL
 *   messages_json   not NULL, a list of {"role", "content"} or an object with "messages", "tools"
 *   size            bytes of messages_json, 0 or more
 *   opts            NULL: defaults; kind "chat": template, name, add_generation_prompt, tools,
 *                   variables
 *   out             not NULL; "ids" i32 (1, n) and "keep" u8 (1, n): 0 for text of the assistant,
 *                   which is trained, 1 elsewhere
 *
 * Returns  DLLM_OK; DLLM_FAILED_PRECONDITION when there is no template, and when the tokenizer
 *          lacks tokens of a named template; DLLM_NOT_FOUND for an unknown name;
 *          DLLM_INVALID_ARGUMENT for messages that the template refuses (the message is the
 *          template's) and for a template that fails (the message has line and tag);
 *          DLLM_UNIMPLEMENTED for a statement or filter that dllm does not have;
 *          DLLM_RESOURCE_EXHAUSTED when the template does not end; DLLM_DATA_LOSS for broken JSON
 * Owns     caller owns out
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_tokenizer_chat(const dllm_tokenizer *tok, const char *messages_json,
                                         int64_t size, const dllm_options *opts, dllm_batch **out,
                                         dllm_error *err);

/** Renders a conversation and converts it to ids; a task can cancel it. Else as
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
 * Owns     caller owns out
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
