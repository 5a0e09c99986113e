# Trains a small model on a text file and draws the loss as an SVG file, without another package.
#
#     julia --project=bindings/julia bindings/julia/examples/loss_curve.jl corpus.txt curve.svg 200

# %% The text, a tokenizer of it, batches
using DLLM
using Printf

path, target = get(ARGS, 1, "corpus.txt"), get(ARGS, 2, "loss_curve.svg")
count = parse(Int, get(ARGS, 3, "200"))

tokenizer = DLLM.train_tokenizer(Dataset(path; rows = "line"); vocab_size = 320)
data = Dataset(path, tokenizer; rows = "line")
loader = Loader(data; batch = 8, length = 32, epochs = 0)
println(length(data), " lines, ", length(tokenizer), " tokens")

# %% A model with random weights
model = Model((model_type = "llama", vocab_size = length(tokenizer), hidden_size = 64, intermediate_size = 128,
    num_hidden_layers = 2, num_attention_heads = 2, num_key_value_heads = 2, max_position_embeddings = 64,
    dllm = (attention = "bidirectional", mask_token_id = DLLM.id(tokenizer, "mask"))))

# %% Train, and keep the loss of every step
trainer = Trainer(model, Objective("mdlm"); lr = 3e-3, warmup = 10)
losses = Float64[]
run!(trainer, loader, count) do event
    event.kind === :train_step || return
    push!(losses, event["loss"])
    event["step"] % 50 == 0 && @printf("step %4d  loss %.3f\n", event["step"], event["loss"])
end

# %% The curve: every loss as a thin line, the mean of the last 20 as a thick one
smooth(values, width) = [sum(values[max(1, i - width + 1):i]) / min(i, width) for i in eachindex(values)]

function svg(losses; width = 720, height = 360, edge = 48)
    top = maximum(losses)
    x(i) = edge + (width - 2edge) * (i - 1) / max(1, length(losses) - 1)
    y(value) = height - edge - (height - 2edge) * value / top
    line(values) = join((@sprintf("%.1f,%.1f", x(i), y(value)) for (i, value) in enumerate(values)), ' ')
    label(left, up, text) = """<text x="$left" y="$up" font-family="sans-serif" font-size="12">$text</text>"""
    ticks = [label(8, y(value) + 4, @sprintf("%.2f", value)) for value in range(0, top, length = 5)]
    return """
        <svg xmlns="http://www.w3.org/2000/svg" width="$width" height="$height">
        <rect width="100%" height="100%" fill="white"/>
        <path d="M$edge,$edge V$(height - edge) H$(width - edge)" fill="none" stroke="black"/>
        $(join(ticks, '\n'))
        $(label(width - edge - 60, height - 16, "$(length(losses)) steps"))
        $(label(edge, 24, "loss (nats)"))
        <polyline points="$(line(losses))" fill="none" stroke="#9ecae1"/>
        <polyline points="$(line(smooth(losses, 20)))" fill="none" stroke="#08519c" stroke-width="2"/>
        </svg>
        """
end

write(target, svg(losses))
println("wrote ", target)

# %% A sample
Decoder(model; steps = 16, gen_length = 16, temperature = 0.5) do decoder
    start!(decoder, encode(tokenizer, "the"); seed = 1)
    for active in steps(decoder)
        println(decode(tokenizer, ids(decoder)))
    end
end
