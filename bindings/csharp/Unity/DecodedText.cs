using System;
using Dllm;
using UnityEngine;

/// <summary>Decodes text a slice per frame, on the thread of the game. Attach it to an object, set the folder of a
/// model, call Say; Text is what is decided so far.</summary>
public sealed class DecodedText : MonoBehaviour
{
    /// <summary>A model with its tokenizer, for example in Application.streamingAssetsPath.</summary>
    public string modelPath;

    /// <summary>What one frame may spend, in milliseconds; one operation of the model may go over it.</summary>
    public float budget = 2;

    public int steps = 32;
    public int length = 48;

    /// <summary>Called in Update with the final text.</summary>
    public event Action<string> Finished;

    private Engine engine;
    private Model model;
    private Tokenizer tokenizer;
    private Decoder decoder;
    private int given;

    public string Text { get; private set; } = "";

    public bool IsBusy { get; private set; }

    private void Awake()
    {
        engine = new Engine(new Options {["threads"] = 1});
        model = Model.Load(modelPath, engine);
        tokenizer = Tokenizer.Load(modelPath);
        decoder = new Decoder(model, new Options {["steps"] = steps, ["gen_length"] = length});
    }

    /// <summary>Starts a text; one that is not finished is left.</summary>
    public void Say(string prompt, long seed)
    {
        int[] ids = tokenizer.Encode(prompt);
        given = ids.Length;
        decoder.Start(ids, seed);
        IsBusy = true;
    }

    private void Update()
    {
        if (!IsBusy) return;
        bool changed = false;
        int active = decoder.StepFor(TimeSpan.FromTicks((long)(budget * TimeSpan.TicksPerMillisecond)), e =>
        {
            changed |= e.Kind == EventKind.DecodeStep;
            return Answer.Continue;
        });
        if (changed) Text = Decided();
        if (active > 0) return;
        IsBusy = false;
        Finished?.Invoke(Text);
    }

    /// <summary>The text behind the prompt, without open positions.</summary>
    private string Decided()
    {
        int[] ids = decoder.Ids();
        State[] states = decoder.States();
        int count = 0;
        for (int i = given; i < ids.Length; i++)
            if (states[i] != State.Masked) ids[count++] = ids[i];
        Array.Resize(ref ids, count);
        return tokenizer.Decode(ids);
    }

    private void OnDestroy()
    {
        decoder?.Dispose();
        tokenizer?.Dispose();
        model?.Dispose();
        engine?.Dispose();
    }
}
