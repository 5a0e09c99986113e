# The ten points of tests/bindings/scenario.md.
using Test
include("tiny.jl")

"FNV-1a of 64 bits over the ids, four bytes each, low byte first."
function token_hash(ids)
    hash = 0xcbf29ce484222325
    for byte in reinterpret(UInt8, htol.(Vector{Int32}(ids)))
        hash = (hash ⊻ byte) * 0x00000100000001b3
    end
    return string(hash, base = 16, pad = 16)
end

caught(f) =
    try
        f()
        nothing
    catch problem
        problem
    end

function version(tiny)
    @test DLLM.abi_version() == 1
    @test DLLM.version() isa VersionNumber && haskey(DLLM.build_info(), "compiler")
    @test "mdlm" in DLLM.names(:objective)
end

function option(tiny)
    problem = caught(() -> Decoder(tiny.model; stepz = 4))
    @test problem isa DLLMError && problem.code === :not_found
    @test occursin("stepz", problem.message) && occursin("steps", problem.hint)
    @test caught(() -> Decoder(tiny.model; steps = "many")).code === :invalid_argument
end

function loading(tiny)
    mktempdir() do folder
        save(tiny.model, joinpath(folder, "model"))
        Model(joinpath(folder, "model"); engine = tiny.engine) do loaded
            @test param_names(loaded) == param_names(tiny.model)
            @test all(Array(param(loaded, name)) == Array(param(tiny.model, name)) for name in param_names(loaded))
        end
        problem = caught(() -> Model(joinpath(folder, "nowhere"); engine = tiny.engine))
        @test problem.code === :not_found && occursin("nowhere", problem.message)
    end
end

function encoding(tiny)
    text = "the cat sat on the möön"
    @test decode(tiny.tokenizer, encode(tiny.tokenizer, text)) == text
    DLLM.Task() do task
        @test encode(tiny.tokenizer, text; task = task) == encode(tiny.tokenizer, text)
    end
    println("encode ", token_hash(encode(tiny.tokenizer, "the cat sat on the mat")))
end

function decoding(tiny; name = "fresh", settings...)
    pushed, pulled, seen = tiny_decoder(tiny; settings...), tiny_decoder(tiny; settings...), 0
    run!(pushed) do event
        if event.kind === :decode_step
            seen += 1
            @test length(event["ids"]) == length(event["states"]) && get(event, "no such key", 7) == 7
        end
    end
    active = collect(steps(pulled))
    @test last(active) == 0 && length(active) == seen
    @test ids(pushed) == ids(pulled)
    println(name, " ", token_hash(ids(pushed)))
end

function training(tiny)
    trainer = tiny_trainer(tiny)
    losses = [step!(trainer, DLLM.next!(tiny.loader)) for _ in 1:10]
    @test last(losses) < first(losses)
    decoding(tiny; name = "trained", temperature = 0.8)
end

# From another task: of another thread where there is one, else of this thread, which runs it between two steps.
function cancelling(tiny)
    trainer, task, started = tiny_trainer(tiny), DLLM.Task(), Channel{Nothing}(1)
    other = Threads.@spawn (take!(started); DLLM.cancel(task))
    problem = caught() do
        run!(trainer, tiny.loader, 1_000_000; task = task) do event
            isready(started) || metric(trainer, "step") > 1 || put!(started, nothing)
            nothing
        end
    end
    wait(other)
    @test problem isa DLLMError && problem.code === :cancelled && DLLM.iscancelled(task)
    @test isfinite(step!(trainer, DLLM.next!(tiny.loader)))
end

function callback(tiny)
    decoder, mine = tiny_decoder(tiny), KeyError("mine")
    @test caught(() -> run!(event -> throw(mine), decoder)) === mine
    run!(decoder)
    @test metric(decoder, "open") == 0
end

function closing(_)
    tiny = Tiny()
    decoder = Decoder(tiny.model; steps = 2, gen_length = 4)
    close(tiny.engine)
    close(tiny.model)
    start!(decoder; seed = 7)
    run!(decoder)
    @test length(ids(decoder)) == 4
    close(decoder)
    close(decoder)
    @test !isopen(decoder) && caught(() -> step!(decoder)) isa ClosedError
    @test caught(() -> Decoder(tiny.model)) isa ClosedError
    foreach(close, (tiny.tokenizer, tiny.data))
    @test haskey(DLLM.next!(tiny.loader), "ids")
end

resident() = 4096 * parse(Int, split(read("/proc/self/statm", String))[2])

function thousand(tiny)
    round(count) = for number in 1:count
        Batch("ids" => [number 1 2]) do batch
            batch["ids"] == [number 1 2] || error("another batch")
        end
        DLLM.Task(close)
        Decoder(close, tiny.model)
    end
    round(100)
    GC.gc()
    before = resident()
    round(1000)
    GC.gc()
    @test resident() - before < 20 << 20
end

points = [:version => version, :option => option, :load => loading, :encode => encoding, :decode => decoding,
    :train => training, :cancel => cancelling, :callback => callback, :close => closing, :thousand => thousand]
tiny = Tiny()
for (number, (name, point)) in enumerate(points)
    point(tiny)
    println("point $number $name ok")
end
