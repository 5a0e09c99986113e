// Settings: keys and values of one kind, checked by the library.
'use strict';
const { fileURLToPath } = require('node:url');
const raw = require('./raw.js');
const { lib, textOf } = require('./library.js');
const { DllmError, fromStatus, putError, takeError } = require('./errors.js');
const { plain, split } = require('./given.js');
const { check, encoded } = require('./json.js');
const { Managed } = require('./managed.js');
const { checkWhole, nearest } = require('./values.js');

function checked(use) {
  const error = takeError();
  try {
    const status = use(error);
    if (status !== raw.OK) throw fromStatus(status, error);
  } finally {
    putError(error);
  }
}

// JSON has no whole numbers of 64 bits.
function setWhole(options, key, value) {
  checkWhole(value, `option ${key}`);
  checked((error) => lib.dllm_options_set_i64(options.pointer, key, value, error));
}

class Options extends Managed {
  static noun = 'options';
  static release = 'dllm_options_release';

  constructor(kind, settings = {}) {
    const out = new BigUint64Array(1);
    checked((error) => lib.dllm_options_new(kind, out, error));
    super(out[0]);
    const isWhole = ([, value]) => typeof value === 'bigint';
    const entries = Object.entries(settings);
    const others = Object.fromEntries(entries.filter((entry) => !isWhole(entry)));
    try {
      const json = Buffer.from(encoded(others));
      checked((error) => lib.dllm_options_set_json(this.pointer, json, json.length, error));
      for (const [key, value] of entries.filter(isWhole)) setWhole(this, key, value);
    } catch (problem) {
      this.close();
      throw problem;
    }
  }
}

// The type of a setting, of a list that of its elements; '' for an unknown one.
function typeOf(kind, key) {
  const buffer = lib.dllm_buffer_new();
  try {
    checked((error) => lib.dllm_options_schema(kind, buffer, error));
    const { elem, type = '' } = JSON.parse(textOf(buffer)).keys.find(({ name }) => name === key) ?? {};
    return elem ?? type;
  } finally {
    lib.dllm_buffer_release(buffer);
  }
}

const isLoose = (value) => Number.isInteger(value) && !Number.isSafeInteger(value);

// Throws for a Number that is not exact where a whole number belongs, also in a list.
function checkExact(kind, key, value) {
  const isMany = Array.isArray(value) || ArrayBuffer.isView(value);
  const at = isMany ? Array.prototype.findIndex.call(value, isLoose) : -1;
  if ((at < 0 && !isLoose(value)) || typeOf(kind, key) !== 'i64') return;
  checkWhole(at < 0 ? value : value[at], at < 0 ? `option ${key}` : `option ${key}, item ${at + 1}`);
}

// The error of settings. Where a name of an option of the call itself is nearer than names of settings, the hint has it.
function withName(problem, keys, names) {
  const key = keys.find((one) => problem.code === 'NOT_FOUND' && problem.message.includes(`"${one}"`));
  if (key === undefined) return problem;
  const said = /^did you mean (.+)\?$/.exec(problem.hint)?.[1];
  const near = nearest(key, said ? [said, ...names] : names);
  if (!names.includes(near)) return problem;
  return new DllmError(problem.message.split('\n')[0], { status: problem.status, hint: `did you mean ${near}?` });
}

// Throws for a value that JSON cannot hold; the error has the nearest of the names.
function checkNamed(key, value, names) {
  if (typeof value === 'bigint') return;
  try {
    check(value, key);
  } catch (problem) {
    const near = problem instanceof TypeError && nearest(key, names);
    if (near) problem.message += `; did you mean ${near}?`;
    throw problem;
  }
}

// Options of a plain object, for one call; null when nothing is set. undefined means the default. names: those of options
// that the call itself has.
function options(kind, settings, names = []) {
  const given = Object.entries(plain(settings)).filter(([, value]) => value !== undefined);
  if (given.length === 0) return null;
  for (const [key, value] of given) {
    checkNamed(key, value, names);
    checkExact(kind, key, value);
  }
  try {
    return new Options(kind, Object.fromEntries(given));
  } catch (problem) {
    throw withName(problem, given.map(([key]) => key), names);
  }
}

// [options of the call itself, the others as options of a kind]
function divided(kind, given, names) {
  const [own, settings] = split(given, names);
  return [own, options(kind, settings, names)];
}

// A path as the library takes it: text, or a file: URL.
const pathOf = (path) => (path instanceof URL ? fileURLToPath(path) : String(path));

module.exports = { Options, checkNamed, divided, options, pathOf };
