#ifndef DLLM_DATASET_H
#define DLLM_DATASET_H
/* dllm/dataset.h -- documents to train on.
 *
 *     dllm_dataset_open("corpus.txt", tok, NULL, NULL, &data, err);
 *     dllm_loader_new(data, NULL, &loader, err);
 *
 * Formats (option format):
 *
 *     text      option rows: a document is the file, a paragraph or a line
 *     jsonl     a JSON object a line: text, prompt and response, or messages for the chat template
 *               of the tokenizer; files called NAME.jsonl or NAME.ndjson
 *     parquet   columns of texts named like the members of jsonl, also messages as lists of structs with
 *               role and content; files called NAME.parquet
 *     fortunes  texts between lines of a single %, with an index NAME.dat
 *     tokens    a token file made by dllm_dataset_save
 *
 * What is opened may be a file, a folder, or a mixture of parts joined by +:
 *
 *     web.jsonl*0.3+books/[:90%]+chat-*.jsonl.gz[:1000]*2.5
 *
 * [A:B] takes rows A to B of a part: numbers or percents, negative ones from the end. FOLDER[SPLIT:ROWS] takes the
 * first rows of the files whose name begins with that of a split, FOLDER[name:INNER,SPLIT:ROWS] those in a folder
 * inside. *TIMES names how often its
 * rows come in an epoch, up to 100: 0.5 takes every second row. Parts that are patterns of the shell take every
 * file that fits, in order of name. A token file in a mixture is read into memory with the others.
 *
 * Data larger than memory: option token_file names a token file to write while the data is read; batches
 * read their ids from it. `dllm tokenize IN OUT --model MODEL` does the same ahead of training. Rows of a token
 * file take 9 bytes of memory each, whatever their length.
 *
 * Files of text, jsonl and fortunes may be compressed by gzip (corpus.txt.gz); they are decompressed while
 * they are read, in limited memory. Without a tokenizer a dataset holds raw text, for dllm_tokenizer_train.
 *
 * Lifetime   a dataset keeps its tokenizer alive; loaders keep their dataset alive.
 * Threads    one call at a time while it grows; reads and loaders may run at the same time.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Opens a file, all files of a folder in the order of their names, or a mixture of such parts.
 *
 * The files must not change while the dataset is in use: dllm_loader_next fails after a change. A file
 * may be removed.
 *
 *   path   not NULL; the format of each file is detected by its name and first bytes unless option
 *          format names it
 *   tok    NULL: raw text, for dllm_tokenizer_train
 *   opts   NULL: defaults; kind "dataset": format (detect text jsonl parquet fortunes tokens), rows,
 *          text_key, prompt_key, response_key, append_eos, prepend_bos, parse_special,
 *          bad_rows (fail skip), token_file
 *   task   NULL, or checked every few milliseconds; progress in bytes
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND, the message names the part of a mixture; DLLM_INVALID_ARGUMENT for a pipe
 *          or a device, for a token file that is compressed, inside an opened folder or of another
 *          vocabulary, and for a slice or a number of times that cannot be read; DLLM_ALREADY_EXISTS when
 *          something is at token_file;
 *          DLLM_DATA_LOSS for a bad line or a damaged token file, the message has file and line; for
 *          damaged or truncated gzip data, the message has file and byte; for a damaged Parquet file,
 *          the message has file, column and row group, and for one without the columns of rows, the hint
 *          lists those that there are; DLLM_UNIMPLEMENTED for a compression or encoding of Parquet that
 *          this build does not read; DLLM_RESOURCE_EXHAUSTED for a line or a text of more than 64 MiB,
 *          and for a page of Parquet of more than 256 MiB; DLLM_CANCELLED
 * Owns     caller owns out, which keeps tok
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_dataset_open(const char *path, const dllm_tokenizer *tok,
                                       const dllm_options *opts, dllm_task *task,
                                       dllm_dataset **out, dllm_error *err);

/** Creates an empty dataset to fill with dllm_dataset_add.
 *
 *   tok    NULL: raw text
 *   opts   NULL: defaults; kind "dataset"
 *   out    not NULL
 *
 * Returns  DLLM_OK
 * Owns     caller owns out, which keeps tok
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_dataset_new(const dllm_tokenizer *tok, const dllm_options *opts,
                                      dllm_dataset **out, dllm_error *err);

/** Adds one document, a JSON object as in a line of a JSONL file, or all documents of an array.
 *
 *   data   not NULL
 *   json   not NULL: {"text"}, {"prompt", "response"}, {"messages"} or {"ids"}, or an array of
 *          these, one at least; where one is refused, none is added
 *   size   bytes of json, 0 or more
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for JSON that is not a document; DLLM_FAILED_PRECONDITION for
 *          text without a tokenizer, and for messages without a chat template
 * Owns     nothing
 * Threads  owner
 * Since    1
 */
DLLM_API dllm_status dllm_dataset_add(dllm_dataset *data, const char *json, int64_t size,
                                      dllm_error *err);

/** Releases a dataset.
 *
 *   data   NULL: does nothing
 *
 * Returns  nothing
 * Owns     releases data
 * Threads  any
 * Since    1
 */
DLLM_API void dllm_dataset_release(dllm_dataset *data);

/** Returns the number of documents.
 *
 *   data   NULL: 0
 *
 * Returns  documents
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API int64_t dllm_dataset_size(const dllm_dataset *data);

/** Saves the ids as a token file: batches read their ids from it, so it may be larger than memory.
 *
 *   data   not NULL, holds ids
 *   path   not NULL, the file to create
 *   opts   NULL: defaults; kind "save": overwrite (a token file; other files are never replaced)
 *   task   NULL, or checked every few milliseconds; progress in documents
 *
 * Returns  DLLM_OK; DLLM_FAILED_PRECONDITION for raw text; DLLM_ALREADY_EXISTS unless overwrite is
 *          1 and path is a token file; DLLM_PERMISSION_DENIED; DLLM_RESOURCE_EXHAUSTED when the disk
 *          is full; DLLM_CANCELLED
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_dataset_save(const dllm_dataset *data, const char *path,
                                       const dllm_options *opts, dllm_task *task, dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
