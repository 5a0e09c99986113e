# Requests of many tasks: their texts, pieces, cancels, errors, limits, closing.
using Test
using DLLM

const ROOT = joinpath(@__DIR__, "..", "..", "..")
const STORIES = joinpath(ROOT, "scripts", "recipes", "stories.gguf")
const SHORT = (length = 8, steps = 4)
const LONG = (length = 200, steps = 200)  # outlives the calls of a test
const generator = Generator(STORIES)
const queue = Queue(STORIES; slots = 3, engine = (threads = 1,))

code_of(f) = try f(); :none catch problem problem.code end
no_request_is_left() = (about = describe(queue); about["waiting"] + about["decoding"] + about["over"] == 0)

@testset "texts of several tasks" begin
    cases = DLLM.parse_json(read(joinpath(ROOT, "tests", "bindings", "generate_cases.json"), String))["cases"]
    function answered(case)
        settings = [Symbol(key) => value for (key, value) in case["settings"]]
        prompt = case["call"] == "infill" ? Infill(case["text"]) : case["text"]
        ticket = submit!(queue, prompt; client = case["name"], settings...)
        pieces = join(ticket)
        made = generation(ticket)
        return made.whole == case["expect"] && pieces == made.text && generate(queue, prompt; settings...).whole == made.whole
    end
    @test all(fetch.([Threads.@spawn answered(case) for case in cases]))
    @test all(asyncmap(answered, cases))
    @test no_request_is_left()
end

@testset "a cancel ends one request" begin
    ticket, other = submit!(queue, "The sun"; LONG...), submit!(queue, "The sun"; SHORT...)
    Timer(timer -> cancel!(ticket), 0.02)
    @test code_of(() -> generation(ticket)) === :cancelled
    @test code_of(() -> collect(ticket)) === :cancelled
    @test generation(other).text == generate(generator, "The sun"; SHORT...).text
    close(other)
    close(other)
    @test code_of(() -> describe(other)) === :not_found && no_request_is_left()
end

@testset "the wait ends alone" begin
    ticket = submit!(queue, "The sun"; LONG...)
    @test code_of(() -> generation(ticket; task = DLLM.Task(; deadline = 0.01))) === :deadline_exceeded
    @test !wait(ticket; timeout = 0) && !wait(ticket; timeout = 0.005)
    @test code_of(() -> generate(queue, "The sun"; timeout = 0.01, LONG...)) === :deadline_exceeded
    close(ticket)
    @test no_request_is_left()
end

@testset "an error of one request" begin
    good = submit!(queue, "The sun"; SHORT...)
    suppress = collect(0:length(DLLM.tokenizer(queue)) - 1)
    @test !(code_of(() -> generate(queue, "The sun"; suppress = suppress, SHORT...)) in (:none, :cancelled))
    @test generation(good).finish === :full
    close(good)
    @test code_of(() -> submit!(queue, "The sun"; temprature = 1)) === :not_found
    @test code_of(() -> submit!(queue, "The sun"; priority = 2000)) === :invalid_argument
    @test code_of(() -> Queue(STORIES; slot = 2)) === :not_found
    @test no_request_is_left()
end

@testset "limits, drain and close" begin
    small = Queue(DLLM.model(queue), DLLM.tokenizer(queue); slots = 1, waiting = 1)
    first_one = submit!(small, "The sun"; LONG...)
    while describe(first_one)["phase"] == "waiting" sleep(0.001) end
    second = submit!(small, "The sun"; SHORT...)
    @test code_of(() -> submit!(small, "The sun")) === :resource_exhausted
    close(first_one)
    drain!(small)
    @test wait(second; timeout = 0)
    @test code_of(() -> submit!(small, "The sun")) === :unavailable
    close(small)
    @test_throws ClosedError generation(second)
    close(second)
    @noinline forget() = (submit!(queue, "The sun"; LONG...); nothing)
    forget()
    GC.gc()
    @test no_request_is_left()
end
