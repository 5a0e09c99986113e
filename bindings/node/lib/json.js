// JSON for the library. What JSON cannot hold is an error that names its place.
'use strict';
const raw = require('./raw.js');
const { DllmError } = require('./errors.js');

// A TypedArray is a list.
const listed = (_, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);

// What JSON cannot hold, with its place; undefined: there is nothing.
function fault(value, place) {
  if (typeof value === 'number' && !Number.isFinite(value)) return `${place} is ${value}: write a finite number`;
  if (typeof value === 'string' && !value.isWellFormed()) {
    const at = [...value].findIndex((letter) => !letter.isWellFormed());
    return `${place}: a lone surrogate at character ${at + 1}`;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  if (Array.isArray(value) || ArrayBuffer.isView(value)) {
    const item = place === 'messages' ? 'message' : `${place}${place && ', '}item`;
    return first(Array.from(value), (part, at) => fault(part, `${item} ${at + 1}`));
  }
  return first(Object.entries(value), ([key, part]) => fault(key, `the name ${JSON.stringify(key)}`)
    ?? fault(part, place ? `${place}, ${key}` : key));
}

// The first answer about one of the values.
function first(values, about) {
  for (const [at, value] of values.entries()) {
    const found = about(value, at);
    if (found !== undefined) return found;
  }
  return undefined;
}

// A value as JSON text. name is what the caller calls it; an object has the names of its keys.
function encoded(value, name = '') {
  const text = JSON.stringify(value, listed); // throws for an object that holds itself
  const found = fault(value, name);
  if (found !== undefined) throw new DllmError(found, { status: raw.INVALID_ARGUMENT });
  return text;
}

module.exports = { encoded };
