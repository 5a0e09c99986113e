# A model, a tokenizer and text small enough for every test.
using DLLM

const SENTENCES = ["the cat sat on the mat and looked at the moon number $(i % 7)" for i in 0:199]

function tiny_config(tokenizer)
    (model_type = "llama", vocab_size = length(tokenizer), hidden_size = 64, intermediate_size = 128,
        num_hidden_layers = 2, num_attention_heads = 2, num_key_value_heads = 2, max_position_embeddings = 64,
        tie_word_embeddings = true,
        dllm = (attention = "bidirectional", shift = 0, mask_token_id = DLLM.id(tokenizer, "<|mask|>")))
end

function Tiny()
    engine = Engine(threads = 2)
    tokenizer = DLLM.train_tokenizer(Dataset(SENTENCES); vocab_size = 300)
    data = Dataset(SENTENCES, tokenizer)
    loader = Loader(data; batch = 4, length = 32, epochs = 0)
    model = Model(tiny_config(tokenizer); engine = engine)
    return (engine = engine, tokenizer = tokenizer, data = data, loader = loader, model = model)
end

function tiny_decoder(tiny; settings...)
    decoder = Decoder(tiny.model; steps = 6, gen_length = 12, settings...)
    start!(decoder, encode(tiny.tokenizer, "the cat"); seed = 7)
    return decoder
end

tiny_trainer(tiny) = Trainer(tiny.model, Objective("mdlm"); lr = 3e-3)
