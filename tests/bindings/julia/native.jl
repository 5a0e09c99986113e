# What is native in Julia: arrays, iteration, tasks, threads, finalizers, and what each noun does with Julia's values.
using InteractiveUtils: subtypes
using Serialization: deserialize, serialize
using Test
include("tiny.jl")

@testset "JSON" begin
    value = Dict("a" => Any[1, 2.5, true, nothing, "q\"\\\n\u00f6"], "b" => Dict{String,Any}())
    @test DLLM.parse_json(DLLM.json(value)) == value
    @test DLLM.parse_json(raw""" {"x": "\u0041\ud83d\ude00\t"} """) == Dict("x" => "A😀\t")
    for wrong in ("", "[1", "{\"a\"}", "nul", "[1] 2", "\"\\x\"", "\"open")
        @test_throws ArgumentError DLLM.parse_json(wrong)
    end
    @test_throws ArgumentError DLLM.json(NaN)
end

@testset "arrays are shared" begin
    values = Float32[1 2 3; 4 5 6]
    tensor = Tensor(values)
    shared = view(tensor)
    @test size(tensor) == (2, 3) && eltype(tensor) === Float32 && shared == values && Array(tensor) == values
    @test pointer(parent(shared.elements)) == Ptr{Float32}(DLLM.C.dllm_tensor_data(tensor))  # no copy
    @test_throws ErrorException setindex!(shared, 1, 1, 1)
    @test Array{Float64}(tensor) == values && sum(shared) == 21
    @test_throws DLLMError Array{Int32}(Tensor([0.5]))
    for array in (Int64[1, 2], rand(2, 3, 4), fill(Int32(7)), UInt8[], Float16[1 2])
        @test view(Tensor(array)) == array && Array(Tensor(array)) == array
    end
    @test_throws ArgumentError Tensor(Complex{Float64}[1])
    made() = view(Tensor(Float32.(1:1000)))  # the view keeps the tensor
    kept = made()
    GC.gc()
    @test sum(kept) == 500500
    close(tensor)
    @test_throws ClosedError shared[1, 1]
    Batch("ids" => [1 2; 3 4], "mine" => [1.5]) do batch
        @test batch["ids"] isa Matrix{Int32} && batch["ids"] == [1 2; 3 4] && keys(batch) == ["ids", "mine"]
        @test_throws DLLMError batch["idz"]
        @test_throws InexactError batch["ids"] = [2^40 1]
    end
end

tiny = Tiny()

@testset "do blocks and finalizers" begin
    escaped = Ref{Decoder}()
    @test Decoder(decoder -> (escaped[] = decoder; 5), tiny.model) == 5
    @test !isopen(escaped[])
    @test_throws ErrorException Decoder(decoder -> (escaped[] = decoder; error("mine")), tiny.model)
    @test !isopen(escaped[]) && occursin("closed", repr(escaped[])) && occursin("llama", repr(tiny.model))
    for _ in 1:2000
        Decoder(tiny.model; steps = 2)  # left to the collector
    end
    GC.gc()
end

# Every class that has a handle, also one that is added later.
@testset "objects are not copied" begin
    decoder, generator = tiny_decoder(tiny), Generator(tiny.model, tiny.tokenizer)
    DLLM.has_feature("lua") || @info "no Lua in this library"
    objective = Objective("mdlm")
    folder = joinpath(mktempdir(), "model")
    save(tiny.model, folder)
    objects = Any[values(tiny)...; decoder; generator; tiny_trainer(tiny); objective; Batch("ids" => [1 2]); Tensor([1.0f0]);
        Schedule("linear"); DLLM.Source(); DLLM.Task(); DLLM.Options("decoder", Dict()); DLLM.Buffer(); Answer(tiny.tokenizer);
        Checkpoint(folder); DLLM.Lua(); Queue(tiny.model, tiny.tokenizer)]
    @test Set(typeof.(objects)) == Set(subtypes(DLLM.Managed))
    push!(objects, stream(generator, "the cat"; length = 8))
    events = 0
    run!(decoder) do event
        events += 1
        @test_throws ArgumentError copy(event)
        @test_throws ArgumentError deepcopy(event)
    end
    @test events > 0
    for object in objects
        for way in (copy, deepcopy, one -> deepcopy([one]), one -> deepcopy((a = one,)), one -> deepcopy(Dict(1 => one)))
            wrong = try way(object) catch problem problem end
            @test wrong isa ArgumentError && occursin("cannot be copied", wrong.msg)
        end
        @test isopen(object)
    end
    # What is written with Serialization has no handle.
    buffer = IOBuffer()
    wrong = try serialize(buffer, decoder); seekstart(buffer); deserialize(buffer) catch problem problem end
    @test wrong isa Exception || !isopen(wrong)
end

@testset "callbacks" begin
    decoder = tiny_decoder(tiny)
    @test run!(event -> STOP, decoder) === nothing && metric(decoder, "open") > 0
    kept = Ref{Event}()
    @test_throws InterruptException run!(event -> (kept[] = event; throw(InterruptException())), decoder)
    @test_throws ClosedError kept[]["open"]
    run!(decoder) do event
        event.kind === :decode_step || return
        @test DLLM.unsafe_array(event, "ids") == event["ids"] && haskey(describe(event), "open")
        @test_throws KeyError event["no such key"]
    end
    sliced, slices, changed = tiny_decoder(tiny), 1, Int[]
    while step!(event -> append!(changed, get(event, "changed", Int32[])), sliced, 0) > 0
        slices += 1
    end
    @test slices > 12 && length(unique(changed)) == length(changed) == 12
    @test ids(sliced) == ids(decoder)
end

@testset "a task of the same thread cancels" begin
    trainer, task = tiny_trainer(tiny), DLLM.Task()
    @async (sleep(0.05); DLLM.cancel(task))
    problem = try
        run!(trainer, tiny.loader, 1_000_000; task = task)
    catch problem
        problem
    end
    @test problem.code === :cancelled && metric(trainer, "step") >= 1 && first(DLLM.progress(task)) >= 1
    @test DLLM.iscancelled(DLLM.Task(deadline = -1)) && !DLLM.iscancelled(DLLM.Task(deadline = Inf))
    DLLM.Task(deadline = 0) do late
        @test_throws DLLMError step!(trainer, DLLM.next!(tiny.loader); task = late)
    end
end

@testset "runs of two tasks of a thread" begin
    texts = asyncmap(1:4) do seed
        Decoder(tiny.model; steps = 4, gen_length = 4, temperature = 0.9) do decoder
            start!(decoder; seed = seed)
            run!(event -> (sleep(0.001); nothing), decoder)  # switches tasks inside of the callback
            return ids(decoder)
        end
    end
    again = map(1:4) do seed
        Decoder(tiny.model; steps = 4, gen_length = 4, temperature = 0.9) do decoder
            start!(decoder; seed = seed)
            foreach(identity, steps(decoder))
            return ids(decoder)
        end
    end
    @test texts == again
end

@testset "threads" begin
    wanted = [encode(tiny.tokenizer, "the cat $seed") for seed in 1:8]
    found = Vector{Any}(undef, 8)
    Threads.@threads for seed in 1:8
        Decoder(tiny.model; steps = 2, gen_length = 4) do decoder
            start!(decoder, wanted[seed]; seed = seed)
            run!(decoder)
            try
                metric(decoder, "opne")  # an error of this thread
            catch problem
                found[seed] = (ids(decoder)[1:length(wanted[seed])], problem.code)
            end
        end
    end
    @test found == [(each, :not_found) for each in wanted]
end

@testset "requests" begin
    decoder = Decoder(tiny.model; policy = "low_confidence", steps = 4, gen_length = 4, trace = true)
    first_slot = add!(decoder, encode(tiny.tokenizer, "the"); seed = 3)
    second = canvas!(decoder, [5, nothing, 6, nothing]; seed = 4)
    run!(decoder)
    @test ids(decoder, second)[[1, 3]] == [5, 6] && states(decoder, second)[1:3] == [FIXED, FINAL, FIXED]
    @test length(confidence(decoder, second)) == 4 && last(trace(decoder, second))["step"] >= 1
    delete!(decoder, first_slot)
    @test_throws DLLMError ids(decoder, first_slot)
    mine, builtin = (tiny_decoder(tiny; steps = 12, temperature = 0.8) for _ in 1:2)
    while metric(mine, "done") == 0
        predict!(mine)
        said = statistics(mine)
        best = argmax(said["probability"])
        commit!(mine, 0, said["positions"][best:best], said["token"][best:best])
    end
    run!(builtin)
    @test ids(mine) == ids(builtin)
end

@testset "training, losses, checkpoints" begin
    mktempdir() do folder
        trainer = Trainer(tiny.model, Objective("mdlm"); lr = 1e-3, ema = 0.9, accumulate = 2)
        DLLM.add_sink!(trainer, "jsonl", joinpath(folder, "log.jsonl"))
        foreach(_ -> DLLM.accumulate!(trainer, DLLM.next!(tiny.loader)), 1:2)
        @test isfinite(apply!(trainer))
        sync!(trainer)
        saved = save(trainer, folder; loader = tiny.loader)
        @test DLLM.latest(folder) == saved && DLLM.latest(joinpath(folder, "nowhere")) === nothing
        DLLM.restore!(trainer, saved; loader = tiny.loader)
        Checkpoint(saved) do opened
            DLLM.verify(opened)
            name = param_names(tiny.model)[1]
            @test Array(DLLM.tensor(opened, name)) == Array(param(tiny.model, name))
        end
        @test DLLM.model(trainer, "ema")["hidden"] == 64 && isfinite(evaluate(trainer, tiny.loader, 1))
        set!(trainer, "lr", 1e-4)
        @test haskey(describe(trainer), "options")
    end
    objective = Objective("mdlm", Schedule("linear"))
    rows = prepare(objective, [5 6 7 8]; model = tiny.model)
    @test haskey(rows, "targets") && loss(objective, tiny.model, rows) > 0
    @test length(row_losses(objective, tiny.model, [5 6; 7 8]).sums) == 2
    @test Schedule("linear")([0.25]).alpha ≈ [0.75] && Schedule([0, 1], [1, 0])([0.25]).alpha ≈ [0.75]
    @test_throws DimensionMismatch Schedule([0, 1], [1])
    @test size(forward(tiny.model, [5 6; 7 8])["logits"]) == (2, 2, length(tiny.tokenizer))
    name = param_names(tiny.model)[1]
    set!(tiny.model, name, Array(param(tiny.model, name)))
end

@testset "adapters" begin
    own, rows = Tiny(), [5 6 7 8]
    model = own.model
    logits() = forward(model, rows)["logits"]
    thrown(f) = try f(); nothing catch problem problem end
    base = logits()
    @test isempty(adapters(model))
    add_adapter!(model; rank = 2, targets = ["q", "v"], layers = ["0"])
    one = only(adapters(model))
    @test (one["name"], one["rank"], one["alpha"], one["rslora"], one["dora"], one["scale"]) == ("default", 2, 4.0, false, false, 1.0)
    @test one["modules"] == 2 && one["params"] == 2 * 2 * (64 + 64) && one["bytes"] == 4 * one["params"]
    @test logits() == base
    @test thrown(() -> add_adapter!(model)).code === :already_exists
    @test thrown(() -> add_adapter!(model, "other"; rang = 2)).hint == "did you mean rank?"
    @test thrown(() -> add_adapter!(model, "other"; targets = ["nowhere"])).code === :not_found
    @test thrown(() -> add_adapter!(model, "a b")).code === :invalid_argument
    stopped = DLLM.Task()
    DLLM.cancel(stopped)
    @test thrown(() -> add_adapter!(model, "other"; task = stopped)).code === :cancelled
    @test length(adapters(model)) == 1
    trainer = Trainer(model, Objective("mdlm"); lr = 1e-2)
    run!(trainer, own.loader, 3)
    close(trainer)
    trained = logits()
    @test trained != base
    mktempdir() do folder
        path = joinpath(folder, "adapter")
        save_adapter(model, path)
        @test isfile(joinpath(path, "adapter_config.json")) && isfile(joinpath(path, "adapter_model.safetensors"))
        @test thrown(() -> save_adapter(model, path)).code === :already_exists
        @test thrown(() -> save_adapter(model, joinpath(folder, "b"), "absent")).code === :not_found
        remove_adapter!(model)
        @test isempty(adapters(model)) && logits() == base
        add_network!(model, model)
        @test thrown(() -> add_network!(model, model)).code === :already_exists
        @test logits() == base
        remove_network!(model)
        @test thrown(() -> remove_network!(model)).code === :not_found
        load_adapter!(model, path, "loaded")
        @test thrown(() -> load_adapter!(model, path, "loaded")).code === :already_exists
        @test thrown(() -> load_adapter!(model, joinpath(folder, "nowhere"))).code === :not_found
    end
    @test [one["name"] for one in adapters(model)] == ["loaded"] && logits() == trained
    for wrong in (() -> remove_adapter!(model), () -> set_adapter_scale!(model, 1), () -> merge_adapter!(model, "default"))
        problem = thrown(wrong)
        @test problem.code === :not_found && occursin("loaded", problem.hint)
    end
    @test thrown(() -> set_adapter_scale!(model, 2e9, "loaded")).code === :invalid_argument
    set_adapter_scale!(model, 0, "loaded")
    @test only(adapters(model))["scale"] == 0 && logits() == base
    set_adapter_scale!(model, 1, "loaded")
    merge_adapter!(model, "loaded")
    @test isempty(adapters(model)) && logits() ≈ trained && logits() != base
    foreach(name -> add_adapter!(model, name; rank = 2), ("a", "b"))
    @test length(adapters(model)) == 2
    merge_adapter!(model)
    @test isempty(adapters(model))
end

@testset "files in memory, scripts, the library" begin
    mktempdir() do folder
        set!(tiny.model, tiny.tokenizer)
        save(tiny.model, joinpath(folder, "model"))
        source = Source((name => read(joinpath(folder, "model", name)) for name in readdir(joinpath(folder, "model")))...)
        @test DLLM.config(Model(source; engine = tiny.engine)) == DLLM.config(tiny.model)
        @test length(Tokenizer(source)) == length(tiny.tokenizer)
    end
    messages = [(role = "user", content = "the"), (role = "assistant", content = "\"cat\"")]
    said, keep = chat(tiny.tokenizer, messages; template = "{% for m in messages %}{{ m.content }}.{% endfor %}")
    @test decode(tiny.tokenizer, said) == "the.\"cat\"." && keep[1] && !keep[end-1]
    words = "the cät sat. User: no"
    canvas = encode(tiny.tokenizer, words)
    answer = Answer(tiny.tokenizer; stop_texts = [". User:"])
    shown, reason, kinds = "", nothing, fill(MASKED, length(canvas))
    for i in eachindex(canvas)
        kinds[i] = FINAL
        reason = update!(answer, canvas, kinds)
        shown *= next!(answer)
        reason === nothing || break
    end
    @test shown == "the cät sat" && reason === :stop_text && answer_text(answer) == shown
    update!(answer, canvas, fill(FINAL, length(canvas)))
    @test length(cells(answer)) == length(canvas) && join(cells(answer)) == words
    @test_throws DimensionMismatch update!(answer, canvas, [FINAL])
    @test decode_stream(tiny.tokenizer, said) == ("the.\"cat\".", length(said))
    if DLLM.has_feature(:lua)
        lua = Lua()
        lua["words"], lua["n"] = Dataset(["one", "two"]), Dict("a" => [1, 2, 3])
        @test DLLM.run_text(lua, "function f(x) return x + n.a[3] end return words:size()") == [2]
        @test DLLM.call_function(lua, "f", 4) == [7]
        @test_throws DLLMError DLLM.run_text(lua, "error 'no'")
    end
    @test DLLM.schema("decoder")["kind"] == "decoder" && DLLM.devices(tiny.engine) == ["cpu:0"]
    @test tiny.engine["threads"] == 2 && haskey(describe(tiny.engine), "memory")
    DLLM.log_to(:queue, :warn)
    @test DLLM.log_lines() isa Vector{Tuple{Symbol,String}}
    DLLM.log_to(:none)
    @test occursin("cannot load", sprint(showerror, try DLLM.load("/nowhere.so") catch problem problem end))
end
