// Values of the caller: what they are, and words for errors about them.
'use strict';

// An object of no class: {}, of this or of another realm, or without a prototype.
function isPlain(value) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const above = Object.getPrototypeOf(value);
  return above === null || Object.hasOwn(above, 'isPrototypeOf');
}

// A value in words: 5, "text", a function, an array, a Set.
function shown(value) {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return String(value);
  if (Array.isArray(value)) return 'an array';
  if (isPlain(value)) return 'an object';
  const name = value.constructor?.name;
  if (!name || name === 'Object') return 'an object with a prototype of its own';
  return `${/^[AEIO]/.test(name) ? 'an' : 'a'} ${name}`;
}

// Throws for a value that is not a whole number of 64 bits: a BigInt, or a Number that is exact.
function checkWhole(value, place) {
  if (Number.isSafeInteger(value)) return;
  if (typeof value === 'bigint') {
    if (BigInt.asIntN(64, value) === value) return;
    throw new RangeError(`${place} has 64 bits, ${value} has more`);
  }
  if (!Number.isInteger(value)) throw new TypeError(`${place} takes a whole number, not ${shown(value)}`);
  throw new RangeError(`${place}: a Number is exact up to ${Number.MAX_SAFE_INTEGER}, and ${value} is not: pass a BigInt`);
}

// How many letters differ.
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) next.push(Math.min(row[j + 1] + 1, next[j] + 1, row[j] + (letter === b[j] ? 0 : 1)));
    row = next;
  }
  return row.at(-1);
}

const LONGEST = 256; // letters of a name; a longer one is not a typing error

// The nearest name, as the library finds it; undefined: each differs in more than half of the letters.
function nearest(word, names) {
  if (word.length > LONGEST) return undefined;
  let best = Math.max(Math.floor(word.length / 2), 1) + 1;
  let found;
  for (const name of names) {
    const differ = distance(word, name);
    if (differ < best) [best, found] = [differ, name];
  }
  return found;
}

module.exports = { checkWhole, isPlain, nearest, shown };
