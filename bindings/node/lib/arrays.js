// Numbers in and out: TypedArrays, or plain and nested arrays that become one.
'use strict';
const raw = require('./raw.js');
const { attempt, call } = require('./call.js');
const { checkWhole, shown } = require('./values.js');

// dtype: [constant, TypedArray]; f16 and bf16 are read as f32.
const DTYPES = {
  f32: [raw.F32, Float32Array], f64: [raw.F64, Float64Array], i32: [raw.I32, Int32Array],
  i64: [raw.I64, BigInt64Array], u8: [raw.U8, Uint8Array], i8: [raw.I8, Int8Array], u32: [raw.U32, Uint32Array],
};
const NAMES = new Map([...Object.entries(DTYPES).map(([name, [number]]) => [number, name]),
  [raw.F16, 'f16'], [raw.BF16, 'bf16']]);

function dtypeOf(name) {
  if (!Object.hasOwn(DTYPES, name)) {
    throw new RangeError(`unknown dtype '${name}'; there are ${Object.keys(DTYPES).join(', ')}`);
  }
  return DTYPES[name];
}

const isRow = (values) => Array.isArray(values) || ArrayBuffer.isView(values);

// Dimensions of nested arrays; rows of different lengths throw.
function shapeOf(values) {
  if (!isRow(values)) return [];
  if (ArrayBuffer.isView(values) || values.length === 0) return [values.length];
  const inner = shapeOf(values[0]);
  for (const row of values) {
    const other = shapeOf(row);
    if (other.join() !== inner.join()) {
      throw new RangeError(`rows of different shapes: [${inner}] and [${other}]`);
    }
  }
  return [values.length, ...inner];
}

const flat = (values) => (Array.isArray(values) && values.some(isRow) ? values.flatMap((row) => Array.from(flat(row))) : values);

// The dtype of a TypedArray; of plain numbers i32 when all are whole, else f32.
function guessDtype(values) {
  for (const [name, [, Typed]] of Object.entries(DTYPES)) if (values instanceof Typed) return name;
  if (ArrayBuffer.isView(values)) throw new TypeError(`no dtype for ${values.constructor.name}`);
  const all = shapeOf(values).length ? flat(values) : [values];
  return Array.prototype.every.call(all, (value) => Number.isInteger(value)) ? 'i32' : 'f32';
}

// Throws for an element that is not a number: Number('7') and Number(null) would be numbers.
function checkElement(value, at, dtype, name) {
  const place = `${name}, item ${at + 1}`;
  if (!['number', 'bigint', 'boolean'].includes(typeof value)) throw new TypeError(`${place} is ${shown(value)}: write a number`);
  if (dtype === 'i64' && typeof value === 'number') checkWhole(value, place);
}

// As typed, for an array alone: a number in its place throws.
function listed(values, dtype, name) {
  if (Array.isArray(values) || (ArrayBuffer.isView(values) && !(values instanceof DataView))) return typed(values, dtype, name);
  throw new TypeError(`${name} is an array of numbers, not ${shown(values)}`);
}

// A TypedArray of the dtype; a value that does not fit throws.
function typed(values, dtype, name = 'values') {
  const [, Typed] = dtypeOf(dtype);
  if (values instanceof Typed) return values;
  const all = shapeOf(values).length ? flat(values) : [values];
  if (!ArrayBuffer.isView(all)) Array.from(all).forEach((value, at) => checkElement(value, at, dtype, name));
  const made = dtype === 'i64' ? BigInt64Array.from(all, BigInt) : Typed.from(all, Number);
  for (let index = 0; index < made.length; index++) {
    const whole = dtype[0] !== 'f';
    if (whole ? made[index] != all[index] : Number.isNaN(made[index]) && !Number.isNaN(all[index])) {
      throw new RangeError(`${String(all[index])} at ${index} does not fit ${dtype}`);
    }
  }
  return made;
}

// Calls a function with `dst, dst_count, out_count` last: first for the count, then with room.
function ask(name, dtype, ...args) {
  const [, Typed] = DTYPES[dtype];
  const count = new BigInt64Array(1);
  attempt(raw.OUT_OF_RANGE, name, [...args, null, 0, count]);
  const room = new Typed(Number(count[0]));
  if (room.length) call(name, ...args, room, room.length, count);
  return room.subarray(0, Number(count[0]));
}

const dims = (shape) => BigInt64Array.from(shape, BigInt);

module.exports = { DTYPES, NAMES, ask, dims, dtypeOf, guessDtype, listed, shapeOf, typed };
