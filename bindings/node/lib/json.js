// JSON for the library. What JSON cannot hold is an error that names its place.
'use strict';
const raw = require('./raw.js');
const { DllmError } = require('./errors.js');
const { checkWhole, isPlain, shown } = require('./values.js');

const isList = (value) => Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
const isBoxed = (value) => [Number, String, Boolean].some((type) => value instanceof type);

const invalid = (message) => new DllmError(message, { status: raw.INVALID_ARGUMENT });

// The error of a value that JSON would drop, or make an empty object of.
function unfit(value, place) {
  let wanted = 'a number, a text, true, false, an array or a plain object';
  if (value instanceof Map) wanted = 'a plain object';
  else if (typeof value?.[Symbol.iterator] === 'function') wanted = 'an array';
  return new TypeError(`${place || 'the value'} is ${shown(value)}: write ${wanted}`);
}

function checkText(text, place) {
  if (text.isWellFormed()) return;
  const at = [...text].findIndex((letter) => !letter.isWellFormed());
  throw invalid(`${place}: a lone surrogate at character ${at + 1}`);
}

// A number with all its digits. JSON.stringify drops the sign of -0, and rounds digits that JavaScript does not need.
function ofNumber(value) {
  if (Object.is(value, -0)) return '-0.0';
  const isLong = Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 2 ** 64;
  return String(isLong ? BigInt(value) : value);
}

// The value of an object with a toJSON. JSON.stringify would drop one that is undefined.
function ofOwn(value, place) {
  const own = value.toJSON();
  if (own !== undefined) return own;
  throw new TypeError(`${place || 'the value'}: toJSON of ${shown(value)} returns undefined`);
}

// A value as JSON text. Throws for what JSON cannot hold. An undefined value of an object is not set, and one in a list is an
// error. A BigInt has its digits. place: what the caller calls the value. around: the objects that the value is in.
function written(value, place, around = []) {
  if (typeof value === 'string') {
    checkText(value, place);
    return JSON.stringify(value);
  }
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw invalid(`${place} is ${value}: write a finite number`);
    return ofNumber(value);
  }
  if (typeof value === 'bigint') {
    checkWhole(value, place || 'the value');
    return String(value);
  }
  if (typeof value === 'boolean' || value === null) return String(value);
  if (typeof value !== 'object') throw unfit(value, place);
  if (around.includes(value)) throw new TypeError(`${place || 'the value'} holds itself`);
  const inside = [...around, value];
  if (isList(value)) {
    const item = place === 'messages' ? 'message' : `${place}${place && ', '}item`;
    return `[${Array.from(value, (part, at) => written(part, `${item} ${at + 1}`, inside)).join(',')}]`;
  }
  if (isPlain(value)) {
    const parts = Object.entries(value).filter(([, part]) => part !== undefined).map(([key, part]) => {
      checkText(key, `the name ${JSON.stringify(key)}`);
      return `${JSON.stringify(key)}:${written(part, place ? `${place}, ${key}` : key, inside)}`;
    });
    return `{${parts.join(',')}}`;
  }
  if (isBoxed(value)) return written(value.valueOf(), place, inside);
  if (typeof value.toJSON === 'function') return written(ofOwn(value, place), place, inside);
  throw unfit(value, place);
}

// Throws for a value that JSON cannot hold.
function check(value, place) {
  written(value, place);
}

// A value as JSON text. name is what the caller calls it; an object has the names of its keys.
const encoded = (value, name = '') => written(value, name);

module.exports = { check, encoded };
