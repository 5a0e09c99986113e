# `Pkg.test("DLLM")` in a checkout: the scenario of every binding, then what is native in Julia.
const FOLDER = joinpath(@__DIR__, "..", "..", "..", "tests", "bindings", "julia")
include(joinpath(FOLDER, "scenario.jl"))
include(joinpath(FOLDER, "native.jl"))
include(joinpath(FOLDER, "generator.jl"))
