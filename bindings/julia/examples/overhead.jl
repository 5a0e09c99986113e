# What one call through this package costs, in nanoseconds: the smallest of many rounds.
#
#     julia --project=bindings/julia bindings/julia/examples/overhead.jl
using DLLM
using Printf

function measure(call, what; calls = 10_000, rounds = 100)
    best = minimum(1:rounds) do _
        start = time_ns()
        for _ in 1:calls
            call()
        end
        return (time_ns() - start) / calls
    end
    @printf("%-32s %8.1f ns\n", what, best)
end

const MODEL = Model((model_type = "llama", vocab_size = 32, hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
    num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 32,
    dllm = (attention = "bidirectional", mask_token_id = 1)); engine = Engine(threads = 1))
const DECODER = Decoder(MODEL; steps = 2, gen_length = 4)
const TASK = DLLM.Task()
start!(DECODER, [2, 3]; seed = 7)

measure(DLLM.C.dllm_abi_version, "DLLM.C.dllm_abi_version")
measure(DLLM.abi_version, "DLLM.abi_version")
measure(() -> DLLM.iscancelled(TASK), "DLLM.iscancelled(task)")
measure(() -> DLLM.version(MODEL), "DLLM.version(model)")
measure(() -> metric(DECODER, "open"), "metric(decoder, \"open\")")
measure(() -> ids(DECODER), "ids(decoder) of 6 positions")
measure(() -> close(DLLM.Task()), "close(DLLM.Task())")
