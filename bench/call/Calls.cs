using System;
using System.Diagnostics;
using Dllm;

/// <summary>What one call costs in C#: the smallest of many rounds, in nanoseconds.</summary>
internal static class Calls
{
    private const int Count = 10000, Rounds = 50;

    private static void Measure(string name, Action call)
    {
        double best = double.MaxValue;
        for (int round = 0; round < Rounds; round++)
        {
            var watch = Stopwatch.StartNew();
            for (int i = 0; i < Count; i++) call();
            best = Math.Min(best, watch.Elapsed.TotalMilliseconds * 1e6 / Count);
        }
        Console.WriteLine(name + " " + best.ToString("0.0", System.Globalization.CultureInfo.InvariantCulture));
    }

    private static void Main()
    {
        Model model = Model.Create(new Options
        {
            ["model_type"] = "llama", ["vocab_size"] = 32, ["hidden_size"] = 16, ["intermediate_size"] = 16,
            ["num_hidden_layers"] = 1, ["num_attention_heads"] = 1, ["num_key_value_heads"] = 1,
            ["max_position_embeddings"] = 32,
            ["dllm"] = new Options {["attention"] = "bidirectional", ["mask_token_id"] = 1},
        });
        var decoder = new Decoder(model, new Options {["steps"] = 2, ["gen_length"] = 4});
        decoder.Start(new[] {2, 3}, 7);
        Measure("version", () => { int version = Library.AbiVersion; });
        Measure("metric", () => decoder.Metric("open"));
        Measure("ids", () => decoder.Ids());
        Measure("task", () => new DllmTask().Dispose());
    }
}
