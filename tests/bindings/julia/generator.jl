# Text in and text out: the texts that every language must generate, streams, batches, failures.
using Test
using DLLM

const ROOT = joinpath(@__DIR__, "..", "..", "..")
const STORIES = joinpath(ROOT, "scripts", "recipes", "stories.gguf")
const SHORT = (length = 8, steps = 4)
const generator = Generator(STORIES)

error_of(f) = try f() catch problem problem end
no_request_is_left() = error_of(() -> step!(generator)).code === :failed_precondition

@testset "generated texts" begin
    cases = DLLM.parse_json(read(joinpath(ROOT, "tests", "bindings", "generate_cases.json"), String))["cases"]
    @test length(cases) >= 8
    for case in cases
        settings = [Symbol(key) => value for (key, value) in case["settings"]]
        prompt = case["call"] == "infill" ? Infill(case["text"]) : case["text"]
        made = generate(generator, prompt; settings...)
        @test made.whole == case["expect"]
        pieces = stream(generator, prompt; settings...)
        @test join(pieces) == string(made) == made.text
        @test generation(pieces).whole == case["expect"] && !isopen(pieces)
    end
    @test no_request_is_left()
end

@testset "what a generation has" begin
    made = generate(generator, "Once upon a time"; seed = -3, SHORT...)
    @test (made.finish, made.policy, made.seed, made.completion_tokens) == (:full, "low_confidence", -3, 8)
    @test (made.steps, made.nfe, made.open) == (4, 4, 0) && made.whole == "Once upon a time" * made.text
    @test length(made.ids) == length(made.confidence) == made.prompt_tokens + 8
    @test length(infill(generator, "The<mask:3> was sad. Then<mask:5> came."; SHORT...).holes) == 2
    @test occursin("full", repr(made))
end

@testset "a loop is left early" begin
    pieces = stream(generator, "Once upon a time"; SHORT...)
    @test generation(pieces) === nothing
    for piece in pieces
        @test (piece.step, piece.open) == (1, 6) && occursin("<mask", piece.canvas)
        break
    end
    @test generation(pieces).finish === :open
    close(pieces)
    close(pieces)
    @test no_request_is_left()
    seen = 0
    made = stream(piece -> (seen += 1; STOP), generator, "Once upon a time"; SHORT...)
    @test seen == 1 && made.finish === :open && no_request_is_left()
    @test_throws ErrorException stream(piece -> error("mine"), generator, "Once upon a time"; SHORT...)
    @test no_request_is_left()
    @noinline left() = (for piece in stream(generator, "Once"; SHORT...) break end; nothing)
    left()
    GC.gc()
    generate(generator, "Once"; SHORT...)  # removes what the collector found
    @test no_request_is_left()
end

@testset "one failed prompt leaves the others" begin
    prompts = ["The sun", Infill("no hole <mask:x>"), "A cat", 3]
    results = batch(generator, prompts; seed = 5, SHORT...)
    @test results[2] isa DLLMError && results[2].code === :invalid_argument && results[4] isa ArgumentError
    for place in (1, 3)
        @test results[place].text == generate(generator, prompts[place]; seed = 4 + place, SHORT...).text
    end
    @test_throws ErrorException batch(generator, (i < 3 ? "a" : error("mine") for i in 1:3); SHORT...)
    @test no_request_is_left() && isempty(batch(generator, []))
end

@testset "a request that fails in a step" begin
    every = collect(0:length(DLLM.tokenizer(generator))-1)  # no token may be drawn
    bad, good = add!(generator, "The sun"; suppress = every, SHORT...), add!(generator, "The sun"; SHORT...)
    kinds = Symbol[]
    run!(event -> (push!(kinds, event.kind); nothing), generator)
    @test count(==(:text), kinds) >= 4 && count(==(:answer), kinds) == 2
    @test_throws DLLMError generation(generator, bad)
    @test generation(generator, good).finish === :full && describe(generator, bad)["finish"] == "failed"
    foreach(request -> delete!(generator, request), (bad, good))
    @test_throws DLLMError collect(stream(generator, "The sun"; suppress = every, SHORT...))
    @test no_request_is_left()
end

@testset "more prompts than slots" begin
    small = Generator(DLLM.model(generator), DLLM.tokenizer(generator); slots = 2)
    prompts = ["One", "Two", "Three", "Four", "Five"]
    @test string.(batch(small, prompts; SHORT...)) == string.(batch(generator, prompts; SHORT...))
    close(small)
    close(small)
    @test_throws ClosedError generate(small, "One")
end

@testset "settings" begin
    wrong = error_of(() -> generate(generator, "The sun"; temprature = 1))
    @test wrong.code === :not_found && occursin("temperature", wrong.hint)
    for engine in (Engine(threads = 1), (threads = 1,), Dict("threads" => 1))
        Generator(STORIES; policy = "random", dtype = "f32", engine = engine) do loaded
            @test generate(loaded, "The sun"; SHORT...).policy == "random"
        end
    end
    @test_throws ArgumentError Generator(STORIES; engine = 3)
    for (name, hint) in ((:polcy, "did you mean policy?"), (:dtpe, "did you mean dtype?"), (:xyz, "dtype, engine, heads"))
        unknown = error_of(() -> Generator(STORIES; name => "random"))
        @test unknown.code === :not_found && occursin(hint, unknown.hint)
    end
    @test_throws ArgumentError generate(generator, 3)
    made = generate(generator, "Tom"; policy = "threshold", threshold = 0.6, SHORT...)
    @test made.policy == "threshold"
    text = string(@doc add!)
    for part in ("temperature::Real", "Policy `threshold` adds", "entropy_threshold")
        @test occursin(part, text)
    end
end

@testset "conversations" begin
    hello = [(role = "user", content = "Hi \"you\"")]
    @test error_of(() -> generate(generator, hello)).code === :failed_precondition
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    @test startswith(generate(generator, hello; template = template, SHORT...).whole, "Hi \"you\"")
end

@testset "a task cancels" begin
    task, seen = DLLM.Task(), 0
    ended = error_of() do
        for piece in stream(generator, "Once"; length = 64, task = task)
            seen += 1
            DLLM.cancel(task)
        end
    end
    @test seen == 1 && ended.code === :cancelled
    @test all(result -> result.code === :cancelled, batch(generator, ["a", "b"]; task = task, SHORT...))
    @test no_request_is_left()
    @test_throws DLLMError start!(DLLM.decoder(generator), [1])
end

@testset "what JSON cannot hold is named" begin
    half = "ab" * Char(0xd800)
    said = [(role = "user", content = "Hi"), (role = "user", content = half)]
    for (prompt, settings, message) in (("a", (temperature = NaN,), "temperature is NaN: write a finite number"),
        ("a", (top_p = -Inf32,), "top_p is -Infinity: write a finite number"),
        ("a", (stop = ["x", half],), "stop, item 2: a lone surrogate at character 3"),
        ("a", (variables = Dict("a" => (1, NaN)),), "variables, a, item 2 is NaN: write a finite number"),
        ("a\xff", (length = 4,), "prompt: not UTF-8 at character 2"),
        (half, (length = 4,), "prompt: a lone surrogate at character 3"),
        (said, (length = 4,), "message 2, content: a lone surrogate at character 3"))
        wrong = error_of(() -> generate(generator, prompt; settings...))
        @test wrong.code === :invalid_argument && wrong.message == message
    end
    @test error_of(() -> Model(Dict("dllm" => (shift = NaN,)))).message == "dllm, shift is NaN: write a finite number"
    @test no_request_is_left()
end

@testset "tasks of Julia wait for each other" begin
    alone = [generate(generator, "The sun"; seed = seed, SHORT...).text for seed in 1:3]
    made = [@async(generate(generator, "The sun"; seed = seed, SHORT...).text) for seed in 1:2]
    pieces = @async join(stream(generator, "The sun"; seed = 3, SHORT...))
    both = @async string.(batch(generator, ["The sun", "The sun"]; seed = 1, SHORT...))
    @test fetch.(made) == alone[1:2] && fetch(pieces) == alone[3] && fetch(both) == alone[1:2]
    @test no_request_is_left()
end

@testset "small calls of tasks wait too" begin
    alone = [generate(generator, "The sun"; seed = seed, SHORT...).text for seed in 1:4]
    function work(seed)
        number = add!(generator, "The sun"; seed = seed, SHORT...)
        run!(event -> (yield(); nothing), generator)  # other tasks of this thread begin their calls here
        made = request_text(generator, number)
        delete!(generator, number)
        return made
    end
    @test fetch.([@async(work(seed)) for seed in 1:4]) == alone
    @test fetch.([Threads.@spawn(work(seed)) for seed in 1:4]) == alone
    @test no_request_is_left()
end

@testset "a second call in a callback throws at once" begin
    number = add!(generator, "The sun"; SHORT...)
    seen = Set{Symbol}()
    run!(generator) do event
        @test occursin("The sun", request_text(generator, number, "canvas"))
        for call in (() -> step!(generator), () -> run!(generator), () -> generate(generator, "a"),
            () -> delete!(generator, number), () -> stream(generator, "a"))
            wrong = error_of(call)
            @test wrong isa DLLMError && occursin("inside its callback", wrong.message)
            push!(seen, wrong.code)
        end
    end
    delete!(generator, number)
    @test seen == Set([:failed_precondition]) && no_request_is_left()
end

@testset "the wait for another task ends as the call would" begin
    other, stop = Generator(DLLM.model(generator), DLLM.tokenizer(generator)), DLLM.Task()
    opened = stream(generator, "The sun"; SHORT...)
    long = @async error_of(() -> generate(generator, "The sun"; length = 800, steps = 800, task = stop))
    while !islocked(DLLM.turns_of(generator).mutex)
        yield()
    end
    # The other generator waits for the thread of the first one.
    calls = (task -> generate(generator, "Mia"; task = task), task -> step!(generator; task = task),
        task -> run!(generator; task = task), task -> add!(generator, "Mia"; task = task),
        task -> collect(stream(generator, "Mia"; task = task)),
        task -> throw(batch(generator, ["Mia"]; task = task)[1]), task -> generate(other, "Mia"; task = task))
    for call in calls
        late, cancelled = DLLM.Task(deadline = 0.02), DLLM.Task(deadline = 600)
        waits = [@async(error_of(() -> call(task))) for task in (late, cancelled)]
        sleep(0.03)
        DLLM.cancel(cancelled)
        late, cancelled = fetch.(waits)
        @test (late.code, late.message) == (:deadline_exceeded, "the task's deadline has passed")
        @test (cancelled.code, cancelled.message) == (:cancelled, "the task was cancelled")
    end
    close(opened)  # does not wait
    @test !istaskdone(long)
    DLLM.cancel(stop)
    @test fetch(long).code === :cancelled
    @test no_request_is_left()
end
