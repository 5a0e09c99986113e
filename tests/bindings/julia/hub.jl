# The nine points of ../run_hub.py.
using Test
using DLLM

const NAME = "tester/tiny"

error_of(f) = try f() catch problem problem end

@testset "the hub" begin
    task = DLLM.Task()
    path = pull(NAME; attempts = 2, task = task)
    done, total = DLLM.progress(task)
    @test isfile(joinpath(path, "config.json")) && done == total > 320_000

    plan = hub_describe(NAME)
    @test (plan["name"], plan["missing"], length(plan["files"]), plan["path"]) == (NAME, 0, 3, path)
    @test plan["files"][3]["cached"] && plan["files"][3]["weights"] && plan["free"] > 0
    all = hub_list()
    @test length(all) == 1 && (all[1]["name"], all[1]["kind"]) == (NAME, "model") && all[1]["used"] > 1e9
    one = all[1]["snapshots"][1]
    @test (one["files"], one["revisions"], one["path"]) == (3, ["main"], path)
    report = hub_verify(NAME)
    @test (report["files"], report["checked"], report["faults"]) == (3, 1, [])

    problem = error_of(() -> pull("tester/tin"))
    @test problem.code === :not_found && occursin("the hub has no model tester/tin", problem.message)
    @test pull(NAME; offline = true) == path
    @test occursin("not in the cache", error_of(() -> pull("tester/none"; offline = true)).message)
    @test occursin("endpoint", error_of(() -> pull(NAME; endpoint = "http://127.0.0.1:1")).message)

    begun = time()
    @test error_of(() -> pull("tester/slow"; task = DLLM.Task(deadline = 0.5))).code === :deadline_exceeded
    slow = DLLM.Task()
    other = Threads.@spawn begin
        start = time()
        while time() < start + 0.3 end  # a sleep would wait for the thread that is in the pull
        DLLM.cancel(slow)
    end
    @test error_of(() -> pull("tester/slow"; task = slow)).code === :cancelled
    wait(other)
    @test time() - begun < 10

    @test hub_remove(NAME) > 320_000
    @test error_of(() -> hub_remove(NAME)).code === :not_found
end
