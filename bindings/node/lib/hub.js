// Models and data sets of the Hugging Face hub by name, and the cache that has them.
'use strict';
const { TASK, startText } = require('./call.js');
const { CONTROL } = require('./given.js');
const { divided } = require('./options.js');

const answer = async (...words) => JSON.parse(await startText(...words));

// Loads the files of a name into the cache, unless they are there; resolves to the path that load takes. A pull that ends
// early keeps its bytes, and the next one goes on with them.
async function pull(name, given) {
  const [control, settings] = divided('hub', given, CONTROL);
  return startText('dllm_hub_pull', [name, settings, TASK], control);
}

// Asks the hub what a pull would load, and loads nothing.
async function describe(name, given) {
  const [control, settings] = divided('hub', given, CONTROL);
  return answer('dllm_hub_describe', [name, settings, TASK], control);
}

// The repositories in the cache.
function list(control) {
  return answer('dllm_hub_list', [TASK], control);
}

// Reads every file of a repository in the cache. Faults are in the result and reject nothing.
function verify(name, control) {
  return answer('dllm_hub_verify', [name, TASK], control);
}

// Removes a repository from the cache, or one revision of it for "org/name@revision".
function remove(name, control) {
  return answer('dllm_hub_remove', [name, TASK], control);
}

module.exports = { describe, list, pull, remove, verify };
