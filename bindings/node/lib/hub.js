// Models and data sets of the Hugging Face hub by name, and the cache that has them.
'use strict';
const { TASK, startText } = require('./call.js');
const { options } = require('./options.js');

const answer = async (...words) => JSON.parse(await startText(...words));

// Loads the files of a name into the cache, unless they are there; resolves to the path that load takes. A pull that ends
// early keeps its bytes, and the next one goes on with them.
async function pull(name, { signal, task, ...settings } = {}) {
  return startText('dllm_hub_pull', [name, options('hub', settings), TASK], { signal, task });
}

// Asks the hub what a pull would load, and loads nothing.
async function describe(name, { signal, task, ...settings } = {}) {
  return answer('dllm_hub_describe', [name, options('hub', settings), TASK], { signal, task });
}

// The repositories in the cache.
function list({ signal, task } = {}) {
  return answer('dllm_hub_list', [TASK], { signal, task });
}

// Reads every file of a repository in the cache. Faults are in the result and reject nothing.
function verify(name, { signal, task } = {}) {
  return answer('dllm_hub_verify', [name, TASK], { signal, task });
}

// Removes a repository from the cache, or one revision of it for "org/name@revision".
function remove(name, { signal, task } = {}) {
  return answer('dllm_hub_remove', [name, TASK], { signal, task });
}

module.exports = { describe, list, pull, remove, verify };
