// Finds libdllm, checks its ABI version, and has the functions of the whole library.
'use strict';
const fs = require('fs');
const path = require('path');
const koffi = require('./koffi.js');
const raw = require('./raw.js');
const { checkWhole } = require('./values.js');

const NAMES = { darwin: ['libdllm.1.dylib', 'libdllm.dylib'], win32: ['dllm.dll'] }[process.platform] ??
  ['libdllm.so.1', 'libdllm.so'];
// The folder of the package, a checkout after scripts/build, an installed prefix.
const FOLDERS = [`../native/${process.platform}-${process.arch}`, '../../../build/release/lib', '../../../../../lib'];
// koffi runs a call on a stack of its own, and worker threads get 128 KiB unless it is set before the first load.
const STACK = 8 << 20;

// Where to look: DLLM_LIBRARY alone when it is set, else next to this file, then where the system keeps libraries.
function candidates() {
  if (process.env.DLLM_LIBRARY) return [process.env.DLLM_LIBRARY];
  const near = FOLDERS.flatMap((folder) => NAMES.map((name) => path.join(__dirname, folder, name)));
  return [...near.filter((file) => fs.existsSync(file)), ...NAMES];
}

function open() {
  const tried = [];
  for (const file of candidates()) {
    let library;
    try {
      library = koffi.load(file);
    } catch (problem) {
      tried.push(`  ${file}: ${problem.message}`);
      continue;
    }
    return bind(library, file);
  }
  throw new Error(`cannot load libdllm; tried\n${tried.join('\n')}\nset DLLM_LIBRARY to the path of libdllm.so`);
}

// Throws for a value that koffi would take as an address: a number where a text or an object belongs ends the process.
// A text with a byte 0 would be cut there, and a number to a whole one.
function check(name, parameters, values) {
  parameters.forEach((type, index) => {
    const value = values[index];
    if (type === 'int64') checkWhole(value, `${name}: argument ${index + 1}`);
    const fits = type === 'str'
      ? value === null || value === undefined || (typeof value === 'string' && !value.includes('\0'))
      : type !== 'void *' || typeof value !== 'number';
    if (fits) return;
    const wanted = type === 'str' ? 'a text without a byte 0' : 'an object of dllm';
    const shown = typeof value === 'string' ? JSON.stringify(value) : String(value);
    throw new TypeError(`${name}: argument ${index + 1} takes ${wanted}, not ${shown}`);
  });
}

function checked(name, parameters, native) {
  const call = (...values) => {
    check(name, parameters, values);
    return native(...values);
  };
  call.async = (...values) => {
    check(name, parameters, values);
    native.async(...values);
  };
  return call;
}

// {name: function} of every function; an error names what does not fit.
function bind(library, file) {
  const find = (name) => {
    const [result, parameters] = raw.FUNCTIONS[name];
    return checked(name, parameters, library.func(name, result, parameters));
  };
  let abi;
  try {
    abi = find('dllm_abi_version')();
  } catch {
    throw new Error(`${file} is not a libdllm: it has no dllm_abi_version`);
  }
  if (abi !== raw.ABI) {
    throw new Error(`${file} has ABI ${abi}, this package ABI ${raw.ABI}; install versions that belong together`);
  }
  const functions = {};
  const missing = [];
  for (const name of Object.keys(raw.FUNCTIONS)) {
    try {
      functions[name] = find(name);
    } catch {
      missing.push(name);
    }
  }
  if (missing.length) throw new Error(`${file} is older than this package, it lacks: ${missing.join(', ')}`);
  return functions;
}

try {
  koffi.config({ async_stack_size: STACK, sync_stack_size: STACK });
} catch {
  // Another package has loaded a library before: its stacks are in use, and stay as they are.
}
const lib = open();

// Throws for values that a function does not take.
const checkValues = (name, values) => check(name, raw.FUNCTIONS[name][1], values);

// The bytes of a buffer as text.
function textOf(buffer) {
  const size = lib.dllm_buffer_size(buffer);
  return size ? Buffer.from(koffi.view(lib.dllm_buffer_data(buffer), size)).toString() : '';
}

const abiVersion = () => lib.dllm_abi_version();
const version = () => lib.dllm_version();
// How the library was built: compiler, simd, lua, pjrt, git.
const buildInfo = () => JSON.parse(lib.dllm_build_info());
const hasFeature = (name) => lib.dllm_has_feature(name) !== 0;

// Names of a registry kind: engine family objective options policy schedule sink.
function names(kind) {
  const found = [];
  for (let name; (name = lib.dllm_registry_name(kind, found.length)) !== null;) found.push(name);
  return found;
}

module.exports = { lib, abiVersion, version, buildInfo, checkValues, hasFeature, names, textOf };
