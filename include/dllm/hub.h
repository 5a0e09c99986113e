#ifndef DLLM_HUB_H
#define DLLM_HUB_H
/* dllm/hub.h -- models, adapters and data sets by name, from the Hugging Face hub.
 *
 * A name is "org/name", "org/name@revision" or "org/name:file". Pull it once, and load what the
 * pull returns:
 *
 *     dllm_hub_pull("GSAI-ML/LLaDA-8B-Instruct", NULL, task, dir, err);
 *     dllm_model_load(engine, dllm_buffer_data(dir), NULL, task, &model, err);
 *
 * dllm_model_load, dllm_model_quantize, dllm_tokenizer_load, dllm_checkpoint_open and
 * dllm_engine_plan also take the name itself when the cache has all of its files. They never use
 * the network. A file or folder with the same path comes before a name.
 *
 * The cache has the layout of Python's huggingface_hub, and both programs use each other's files.
 * The variables are the same too: HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE. The
 * token goes to the endpoint's host alone.
 *
 * The options of kind "hub":
 *
 *     option      values        meaning
 *     file        text          a file of the repository, a pattern with * and ?, or a word in the
 *                               name of one GGUF file ("Q4_K_M")
 *     revision    text          branch, tag or commit
 *     dataset     0 1           1: the name is the name of a data set; "dataset:org/name" is too
 *     weights     0 1           0: config, tokenizer and chat template alone; of a data set the
 *                               list of its files alone
 *     offline     0 1           1: only the cache is used, as with HF_HUB_OFFLINE=1
 *     attempts    1 to 100      attempts for one request
 *
 * Without option file a model is config.json, the files of its tokenizer, its chat template and its
 * weights. The weights are safetensors, else .bin, else the only GGUF file. A data set is its
 * .parquet, .jsonl, .ndjson, .csv, .tsv and .txt files.
 *
 * Lifetime   the functions keep nothing.
 * Threads    every function here may be called from any thread. Two pulls of one file, also in two
 *            processes, load it once: the second one waits.
 */
#include "dllm/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/** Loads the files of a name into the cache, unless they are there.
 *
 * A cancelled or failed call keeps the bytes that it has loaded, and the next call goes on with
 * them. The progress of the task counts bytes. Without network the files in the cache are used if
 * they are complete.
 *
 * The list of the files of a data set is kept in the cache, so that missing files are known without
 * the hub. With option weights 0 only this list is loaded, and the result is the address of the
 * data set, "hf://datasets/org/name@COMMIT", which dllm_dataset_open reads.
 *
 *   name   not NULL, as "org/name@revision:file"
 *   opts   NULL: defaults; kind "hub": file, revision, dataset, weights, offline, attempts
 *   task   NULL, or checked every few milliseconds
 *   out    not NULL, gets the path of the folder, or of the one file that the name means; for a
 *          data set the path of the folder that has its rows, or its address with weights 0
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND for a name, a revision or a file that the hub does not have, and
 *          for missing files when the hub is not asked;
 *          DLLM_PERMISSION_DENIED for a gated repository; DLLM_UNAUTHENTICATED;
 *          DLLM_FAILED_PRECONDITION when one of several GGUF files has to be named, and for
 *          variables that are not an address or a token;
 *          DLLM_RESOURCE_EXHAUSTED when the disk has no room; DLLM_DATA_LOSS for content that
 *          differs from its SHA-256; DLLM_UNAVAILABLE when the hub does not answer;
 *          DLLM_UNIMPLEMENTED; DLLM_OUT_OF_RANGE; DLLM_CANCELLED
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_hub_pull(const char *name, const dllm_options *opts, dllm_task *task,
                                   dllm_buffer *out, dllm_error *err);

/** Asks the hub what a pull would load.
 *
 * The JSON is {"name", "commit", "path", "bytes", "missing", "free", "memory", "files": [{"path",
 * "size", "cached", "weights"}]}, with the files in the order of the pull. "missing" are the bytes
 * to load, "free" the bytes that the disk has left, "memory" the bytes that this process may use.
 *
 *   name   not NULL, as dllm_hub_pull
 *   opts   NULL: defaults; kind "hub", as dllm_hub_pull
 *   task   NULL, or checked every few milliseconds
 *   out    not NULL
 *
 * Returns  DLLM_OK; statuses as dllm_hub_pull
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_hub_describe(const char *name, const dllm_options *opts, dllm_task *task,
                                       dllm_buffer *out, dllm_error *err);

/** Lists the repositories in the cache.
 *
 * The JSON is [{"name", "kind", "bytes", "incomplete", "used", "path", "snapshots": [{"commit",
 * "revisions", "files", "bytes", "path"}]}]. "kind" is "model" or "dataset". "used" is the time of
 * the last use in seconds since 1970.
 *
 *   task   NULL, or checked for every repository
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_CANCELLED
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_hub_list(dllm_task *task, dllm_buffer *out, dllm_error *err);

/** Reads every file of a repository in the cache and compares the SHA-256 of large files.
 *
 * The JSON is {"name", "files", "checked", "bytes", "faults": [{"path", "what"}]}. "checked" are
 * the files with a SHA-256; small files have none.
 *
 *   name   not NULL, as in dllm_hub_list
 *   task   NULL, or checked every few milliseconds
 *   out    not NULL
 *
 * Returns  DLLM_OK, also with faults; DLLM_NOT_FOUND; DLLM_CANCELLED
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_hub_verify(const char *name, dllm_task *task, dllm_buffer *out,
                                     dllm_error *err);

/** Removes a repository from the cache, or one revision of it for "org/name@revision".
 *
 * Files that another revision uses stay. Of several names of one commit only the given one goes.
 * The JSON is {"name", "freed", "snapshots"}, with the bytes that were freed, and "names" where
 * other names keep the commit.
 *
 *   name   not NULL, as in dllm_hub_list
 *   task   NULL, or checked before the removal begins
 *   out    not NULL
 *
 * Returns  DLLM_OK; DLLM_NOT_FOUND; DLLM_CANCELLED
 * Owns     nothing
 * Threads  any
 * Since    1
 */
DLLM_API dllm_status dllm_hub_remove(const char *name, dllm_task *task, dllm_buffer *out,
                                     dllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
