// JSON for the library. What JSON cannot hold is an error that names its place.
'use strict';
const raw = require('./raw.js');
const { DllmError } = require('./errors.js');
const { isPlain, shown } = require('./values.js');

const isList = (value) => Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
const isBoxed = (value) => [Number, String, Boolean].some((type) => value instanceof type);

// A TypedArray is a list. `this` is what the value is in, since a Buffer has made an object of itself.
function listed(key, value) {
  return ArrayBuffer.isView(this[key]) ? Array.from(this[key]) : value;
}

const invalid = (message) => new DllmError(message, { status: raw.INVALID_ARGUMENT });

// The error of a value that JSON would drop, or make an empty object of.
function unfit(value, place) {
  let wanted = 'a number, a text, true, false, an array or a plain object';
  if (typeof value === 'bigint') wanted = 'a number';
  else if (value instanceof Map) wanted = 'a plain object';
  else if (typeof value?.[Symbol.iterator] === 'function') wanted = 'an array';
  return new TypeError(`${place || 'the value'} is ${shown(value)}: write ${wanted}`);
}

function checkText(text, place) {
  if (text.isWellFormed()) return;
  const at = [...text].findIndex((letter) => !letter.isWellFormed());
  throw invalid(`${place}: a lone surrogate at character ${at + 1}`);
}

// Throws for a value that JSON cannot hold. An undefined value of an object is not set. around: the objects that the value
// is in.
function check(value, place, around = []) {
  if (typeof value === 'string') checkText(value, place);
  if (typeof value === 'number' && !Number.isFinite(value)) throw invalid(`${place} is ${value}: write a finite number`);
  if (['bigint', 'function', 'symbol'].includes(typeof value)) throw unfit(value, place);
  if (typeof value !== 'object' || value === null) return;
  if (around.includes(value)) throw new TypeError(`${place || 'the value'} holds itself`);
  const inside = [...around, value];
  if (isList(value)) {
    const item = place === 'messages' ? 'message' : `${place}${place && ', '}item`;
    Array.from(value).forEach((part, at) => check(part, `${item} ${at + 1}`, inside));
  } else if (isPlain(value)) {
    for (const [key, part] of Object.entries(value)) {
      checkText(key, `the name ${JSON.stringify(key)}`);
      check(part, place ? `${place}, ${key}` : key, inside);
    }
  } else if (isBoxed(value)) {
    check(value.valueOf(), place, inside);
  } else if (typeof value.toJSON === 'function') {
    check(value.toJSON(), place, inside);
  } else {
    throw unfit(value, place);
  }
}

// A value as JSON text. name is what the caller calls it; an object has the names of its keys.
function encoded(value, name = '') {
  if (value === undefined) throw unfit(value, name);
  check(value, name);
  return JSON.stringify(value, listed);
}

module.exports = { check, encoded };
