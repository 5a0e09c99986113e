// The object with options that a call gets: options of the call itself, and settings that the library has.
'use strict';
const raw = require('./raw.js');
const { DllmError } = require('./errors.js');
const { Managed } = require('./managed.js');
const { isPlain, nearest, shown } = require('./values.js');

// The options of what takes long.
const CONTROL = ['signal', 'task'];

// What the caller gave, {} for undefined. Another object than a plain one would lose its content without an error.
function plain(given, what = 'settings are a plain object') {
  if (given === undefined) return {};
  if (!isPlain(given)) throw new TypeError(`${what}, not ${shown(given)}`);
  const [symbol] = Object.getOwnPropertySymbols(given);
  if (symbol !== undefined) throw new TypeError(`a name is a text, not ${String(symbol)}`);
  return given;
}

// The hint for a name that is none of the names.
function hintFor(key, names) {
  const near = nearest(key, names);
  return near ? `did you mean ${near}?` : `the names are ${names.join(', ')}`;
}

// Options with these names and no others.
function only(given, names, what) {
  const options = plain(given, what);
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || names.includes(key)) continue;
    throw new DllmError(`there is no option named "${key}" in this call`,
      { status: raw.NOT_FOUND, hint: hintFor(key, names) });
  }
  return options;
}

// [options with these names, the others]
function split(given, names) {
  const parts = [{}, {}];
  for (const [key, value] of Object.entries(plain(given))) parts[names.includes(key) ? 0 : 1][key] = value;
  return parts;
}

// Throws for an option that is not an object of dllm of this noun.
function checkObject(value, noun, option = noun) {
  if (value instanceof Managed && value.constructor.noun === noun) return;
  const name = noun[0].toUpperCase() + noun.slice(1);
  throw new TypeError(`${option} is ${/^[AEIO]/.test(name) ? 'an' : 'a'} ${name}, not ${shown(value)}`);
}

module.exports = { CONTROL, checkObject, only, plain, split };
