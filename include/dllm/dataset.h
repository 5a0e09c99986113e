#ifndef DLLM_DATASET_H
#define DLLM_DATASET_H
/* dllm/dataset.h -- documents to train on.
 *
 *     dllm_dataset_open("corpus.txt", tok, NULL, NULL, &data, err);
 *     dllm_loader_new(data, NULL, &loader, err);
 *
 * The formats (option format):
 *
 *     format     files             content
 *     text       any               a document is the file, a paragraph or a line (option rows)
 *     jsonl      NAME.jsonl,       a JSON object per line, of one of the shapes below
 *                NAME.ndjson
 *     json       NAME.json         an array of such objects, or the objects one after another
 *     csv        NAME.csv,         a table of texts, whose first row names the columns; delimiter
 *                NAME.tsv          comma, semicolon or tab; quotes as in RFC 4180
 *     parquet    NAME.parquet      columns of texts with the names of the members below; messages
 *                                  are lists of structs, data is a list of texts
 *     fortunes   with a NAME.dat   texts between lines of a single %, with an index NAME.dat
 *     tokens     a token file      ids, as dllm_dataset_save writes them
 *
 * The shapes of a row. A row that fits several has the first of them; shapes with a name that an
 * option sets precede the others:
 *
 *     instruction, output, input       the prompt of Alpaca is given; also instruction, response,
 *                                      context; input and context may be absent or empty
 *     text                             a text
 *     prompt, response                 the prompt is given; also prompt, completion
 *     ids, keep                        token numbers; keep is 1 for given ones, and may be absent
 *     messages                         a list of role and content, for the chat template; what the
 *                                      assistant says is learned
 *     conversations                    the same with from and value
 *     data                             a list of texts, in turn of the user and of the assistant
 *
 * A pair (chosen, rejected) is refused. A row of messages may also have a text system and a list
 * tools. With option template, prompts and instructions with their responses are conversations too.
 *
 * A path is a file, a folder, or a mixture of parts joined by +:
 *
 *     web.jsonl*0.3+books/[:90%]+chat-*.jsonl.gz[:1000]*2.5
 *
 * Each part of a mixture may have a selection of rows and a number of times:
 *
 *     [A:B]                            rows A to B - 1; numbers or percents, negative from the end
 *     FOLDER[SPLIT:ROWS]               first rows of the files whose name begins with SPLIT
 *     FOLDER[name:INNER,SPLIT:ROWS]    the same in the folder INNER of FOLDER
 *     *TIMES                           how often its rows come in an epoch, up to 100; 0.5 takes
 *                                      every second row
 *
 * A part that is a pattern of the shell takes every file that matches, in the order of names. A
 * token file in a mixture is read into memory with the others.
 *
 * A part may be the address of a data set of the hub, and only an address uses the network:
 *
 *     hf://datasets/org/name@revision          every file with rows, also with [...] and *TIMES
 *     hf://datasets/org/name@revision/FILE     a file, a folder or a pattern of it
 *
 * dllm_hub_pull with option weights 0 makes such an address from a name. Its files are loaded into
 * the cache one after another, each while the rows of the one before are read. A part with an end
 * that needs no count, as in [:1000] and [train:1000], is read by ranges. Only the bytes of these
 * rows are loaded, and they are not kept. Option stream does the same for all rows. Files in the
 * cache are read from there. The rows are the same in each case.
 *
 * For data larger than memory, option token_file names a token file that is written while the data
 * is read. Batches read their ids from it. `dllm tokenize IN OUT --model MODEL` does the same
 * before training. Rows of a token file take 9 bytes of memory each, for any length.
 *
 * Files of text, jsonl, json, csv and fortunes may be compressed by gzip (corpus.txt.gz). They are
 * decompressed while they are read, in limited memory. Without a tokenizer a dataset holds raw
 * text, for dllm_tokenizer_train.
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
 * The files must not change while the dataset is in use: dllm_loader_next fails after a change. A
 * file may be removed.
 *
 * The options of kind "dataset":
 *
 *     format            detect: by name and first bytes, and a file that is not text is refused;
 *                       or a format that dllm_registry_name("reader", i) lists, such as jsonl
 *     rows              what a document of a text file is
 *     text_key          the member of a row that holds a whole text
 *     prompt_key        the member of a row that is given
 *     response_key      the member of a row that follows the prompt or the instruction
 *     instruction_key   the member of a row with an instruction
 *     messages_key      the member of a row with messages
 *     template          chat template of conversations: a name (chatml llama3 qwen alpaca) or the
 *                       text of a template; empty: the tokenizer's own
 *     append_eos        every text ends with the tokenizer's eos token, if it has one
 *     prepend_bos       every text begins with the tokenizer's bos token
 *     parse_special     special tokens that are written in the text count as special tokens
 *     bad_rows          fail, or skip: rows that cannot be read are left out and logged
 *     token_file        the token file to write while the data is read
 *     stream            1: files of the hub are read by ranges, and none is kept
 *
 *   path   not NULL, see above
 *   tok    NULL: raw text, for dllm_tokenizer_train
 *   opts   NULL: defaults; kind "dataset": format, rows, text_key, prompt_key, response_key,
 *          instruction_key, messages_key, template, append_eos, prepend_bos, parse_special,
 *          bad_rows (fail skip), token_file, stream
 *   task   NULL, or checked every few milliseconds; progress in bytes, those that are loaded into
 *          the cache included
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND, the message names the part of a mixture; DLLM_INVALID_ARGUMENT
 *          for a pipe or a device, for a file that is not text, for a token file that is
 *          compressed, inside an opened folder or of another vocabulary, and for a slice or a
 *          number of times that cannot be read;
 *          DLLM_ALREADY_EXISTS when token_file exists; DLLM_DATA_LOSS for a bad line or a damaged
 *          token file (the message has file and line), for damaged or truncated gzip data (file and
 *          byte), for a damaged Parquet file (file, column and row group), and for a Parquet file
 *          without the needed columns (the hint lists its columns); DLLM_UNIMPLEMENTED for a
 *          compression or encoding of Parquet that this build does not read, and for pairs;
 *          DLLM_FAILED_PRECONDITION for conversations without a chat template, or whose template
 *          needs tokens that the tokenizer lacks;
 *          DLLM_RESOURCE_EXHAUSTED for a line or a text of more than 64 MiB, and for a page of
 *          Parquet of more than 256 MiB; for an address of the hub the statuses of dllm_hub_pull,
 *          and DLLM_NOT_FOUND or DLLM_UNAVAILABLE with the number of missing files when the hub
 *          cannot be asked; DLLM_CANCELLED
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
 * When one document of an array is refused, none is added.
 *
 *   data   not NULL
 *   json   not NULL: an object of one of the shapes above, or an array of at least one such object
 *   size   bytes of json, 0 or more
 *
 * Returns  DLLM_OK; DLLM_INVALID_ARGUMENT for JSON that is not a document; DLLM_FAILED_PRECONDITION
 *          for text without a tokenizer, and for messages without a chat template
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

/** Saves the ids as a token file.
 *
 * Batches of a dataset that is opened from a token file read their ids from it, so the file may be
 * larger than memory.
 *
 *   data   not NULL, holds ids
 *   path   not NULL, the file to create
 *   opts   NULL: defaults; kind "save": overwrite (a token file; other files are never replaced)
 *   task   NULL, or checked every few milliseconds; progress in documents
 *
 * Returns  DLLM_OK; DLLM_FAILED_PRECONDITION for raw text; DLLM_ALREADY_EXISTS unless overwrite is
 *          1 and path is a token file; DLLM_PERMISSION_DENIED; DLLM_RESOURCE_EXHAUSTED when the
 *          disk is full; DLLM_CANCELLED
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
