-- The layer check sees what it must.   layers_test.lua
local tap = require "tap"
local layers = require "layers"

local function said(path, ...)
  return table.concat(layers.check(path, table.concat({...}, "\n")), "\n")
end

tap.ok(said("src/graph/x.cpp", '#include "tensor/shape.h"', '#include "base/error.h"',
            "#include <vector>") == "", "an arrow down is fine")
tap.ok(said("src/base/x.cpp", '#include "tensor/shape.h"'):find("base may not include tensor"),
       "an arrow up is refused")
tap.ok(said("src/model/x.cpp", '#include "cpu/engine.h"'):find("cpp:1: model may not include cpu"),
       "a model does not name an engine")
tap.ok(said("src/cli/x.cpp", '#include "base/error.h"'):find("cli may not include base"),
       "the program sees the headers only")
tap.ok(said("src/cli/sub/x.cpp", '#include "dllm/model.h"', '#include "../session.h"') == "",
       "the program includes itself and the headers")
tap.ok(said("src/cli/x.cpp", '#include "../base/error.h"'):find("cli may not include base"),
       "a way around through .. is seen")
tap.ok(said("src/noise/x.cpp", "", '#include "dllm/base.h"'):find("x.cpp:2"),
       "the core does not see the public headers")
tap.ok(said("abi/api/x.cpp", '#include "dllm/model.h"', '#include "cpu/engine.h"') == "",
       "the bodies of the ABI see all")
tap.ok(said("include/dllm/x.h", "#include <stdio.h>"):find("stdint.h only"),
       "a public header includes stdint.h only")
tap.ok(said("include/dllm/cpp/x.hpp", "#include <vector>") == "", "a header of C++ includes its library")
tap.ok(said("include/dllm/cpp/x.hpp", '#include "base/error.h"'):find("include may not include base"),
       "and nothing of src")
tap.ok(said("src/common/x.cpp", ""):find("not in the table"), "a new folder needs a place")
tap.done()
