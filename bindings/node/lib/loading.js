// A model with its tokenizer, for an object that has both.
'use strict';
const raw = require('./raw.js');
const { TASK, json, startMake } = require('./call.js');
const { DllmError } = require('./errors.js');
const { CONTROL, plain, split } = require('./given.js');
const { adopt } = require('./managed.js');
const { checkNamed, options, pathOf } = require('./options.js');
const { Engine, defaultEngine } = require('./engine.js');
const { nearest } = require('./values.js');

// The hint of the library for an unknown setting of a kind.
function hintFor(kind, key) {
  try {
    options(kind, { [key]: 0 })?.close();
  } catch (problem) {
    return problem.hint;
  }
  return '';
}

const OF_LOAD = ['engine', ...CONTROL]; // options of load itself

// The error of a setting that load does not have: the nearest name of one of its kinds, or all its names.
function unknownOfLoad(noun, key, names) {
  const own = nearest(key, OF_LOAD);
  const near = [noun, 'model'].map((kind) => hintFor(kind, key)).find((hint) => hint.startsWith('did you mean'))
    ?? (own && `did you mean ${own}?`);
  return new DllmError(`there is no option named "${key}" of kind model or ${noun}`,
    { status: raw.NOT_FOUND, hint: near ?? `the names are ${names.sort().join(', ')}` });
}

// The names of the options of a kind.
const keysOf = (kind) => new Set(json('dllm_options_schema', kind).keys.map((key) => key.name));

// The settings of the object, and the others.
function divided(noun, settings) {
  const [own, model] = [keysOf(noun), keysOf('model')];
  const parts = [{}, {}];
  for (const [key, value] of Object.entries(settings).filter((entry) => entry[1] !== undefined)) {
    checkNamed(key, value, OF_LOAD);
    if (!own.has(key) && !model.has(key)) throw unknownOfLoad(noun, key, [...model, ...own, ...OF_LOAD]);
    parts[own.has(key) ? 0 : 1][key] = value;
  }
  return parts;
}

// An object of a class, loaded by a function of the library. engine: an Engine, or the settings of a new one; the other
// settings are those of the model and of the object.
async function loaded(type, name, path, given) {
  const [{ engine = defaultEngine(), ...control }, settings] = split(given, OF_LOAD);
  const [own, model] = divided(type.noun, settings);
  const runsOn = engine instanceof Engine ? engine : new Engine(plain(engine, 'engine is an Engine or a plain object'));
  return adopt(type, await startMake(name,
    [pathOf(path), runsOn, options('model', model), options(type.noun, own), TASK], control));
}

module.exports = { keysOf, loaded };
