using System;
using System.Linq;
using Dllm;

/// <summary>A model, a tokenizer and text small enough for every test. Training goes on with the same model.</summary>
internal sealed class Tiny
{
    internal static readonly string[] Sentences =
        Enumerable.Range(0, 200).Select(i => "the cat sat on the mat and looked at the moon number " + i % 7).ToArray();

    internal readonly Engine Engine = new Engine(new Options {["threads"] = 2});
    internal readonly Tokenizer Tokenizer =
        Tokenizer.Train(Dataset.Of(Sentences), new Options {["vocab_size"] = 300});
    internal readonly Loader Loader;
    internal readonly Model Model;

    internal Tiny()
    {
        Dataset data = Dataset.Of(Sentences, Tokenizer);
        Loader = new Loader(data, new Options {["batch"] = 4, ["length"] = 32, ["epochs"] = 0});
        Model = NewModel();
    }

    internal Model NewModel(Options settings = null) =>
        Model.Create(new Options
        {
            ["model_type"] = "llama", ["vocab_size"] = Tokenizer.Count, ["hidden_size"] = 64, ["intermediate_size"] = 128,
            ["num_hidden_layers"] = 2, ["num_attention_heads"] = 2, ["num_key_value_heads"] = 2,
            ["max_position_embeddings"] = 64, ["tie_word_embeddings"] = true,
            ["dllm"] = new Options {["attention"] = "bidirectional", ["shift"] = 0,
                                    ["mask_token_id"] = Tokenizer.Id("<|mask|>")},
        }, Engine, settings);

    /// <summary>"the cat" with seed 7.</summary>
    internal Decoder Decoder(double temperature = 0)
    {
        var decoder = new Decoder(Model, new Options {["steps"] = 6, ["gen_length"] = 12, ["temperature"] = temperature});
        decoder.Start(Tokenizer.Encode("the cat"), 7);
        return decoder;
    }
}

internal static class Check
{
    internal static void That(bool holds, string what)
    {
        if (!holds) throw new InvalidOperationException(what);
    }

    /// <summary>The exception that an action throws.</summary>
    internal static T Throws<T>(Action action) where T : Exception
    {
        try
        {
            action();
        }
        catch (T problem)
        {
            return problem;
        }
        throw new InvalidOperationException("no " + typeof(T).Name + " was thrown");
    }
}
