// koffi, or what to do where it is not installed: npm links a folder that is installed by its path, and installs no
// packages for a linked one.
'use strict';
const path = require('path');

try {
  module.exports = require('koffi');
} catch (problem) {
  if (problem.code !== 'MODULE_NOT_FOUND') throw problem;
  const folder = path.join(__dirname, '..');
  throw new Error(`dllm needs the package koffi, which is not installed; run: npm install --prefix ${folder}`, { cause: problem });
}
