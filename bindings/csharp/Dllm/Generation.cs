using System;
using System.Collections.Generic;
using System.Linq;

namespace Dllm
{
    /// <summary>The text of a request with what is known of it. The lists have one entry per position of the canvas.
    /// ToString is the answer.</summary>
    public sealed class Generation
    {
        private readonly Dictionary<string, object> all;

        internal Generation(string description) { all = (Dictionary<string, object>)JsonReader.Read(description); }

        /// <summary>The answer; of a text with holes: the whole text.</summary>
        public string Text => (string)all["completion"];

        /// <summary>The prompt and the answer.</summary>
        public string Whole => (string)all["text"];

        /// <summary>full, end_token, stop_text or incomplete; open: the request is not over.</summary>
        public string Finish => (string)all["finish"];

        /// <summary>The texts in the holes of an infill; empty without one.</summary>
        public IReadOnlyList<string> Holes => Items("holes").Cast<string>().ToArray();

        /// <summary>Tokens of the prompt.</summary>
        public int PromptTokens => Number("prompt_tokens");

        /// <summary>Tokens of the answer.</summary>
        public int CompletionTokens => Number("completion_tokens");

        /// <summary>Open positions.</summary>
        public int Open => Number("open");

        /// <summary>Denoising steps.</summary>
        public int Steps => Number("steps");

        /// <summary>Forward passes of the model.</summary>
        public int Nfe => Number("nfe");

        /// <summary>A token id for each position.</summary>
        public IReadOnlyList<int> Ids => Items("ids").Select(Convert.ToInt32).ToArray();

        /// <summary>The probability each token had when its position was last predicted.</summary>
        public IReadOnlyList<float> Confidence =>
            Items("confidence").Select(each => each == null ? float.NaN : Convert.ToSingle(each)).ToArray();

        /// <summary>The policy that decoded the text.</summary>
        public string Policy => (string)all["policy"];

        /// <summary>The seed of its random numbers.</summary>
        public long Seed => (long)all["seed"];

        /// <summary>Of a request of a queue: it grows at each step and at the end.</summary>
        internal long Version => (long)all["version"];

        /// <summary>Of a request of a queue.</summary>
        internal bool IsOver => (string)all["phase"] == "over";

        /// <summary>The answer.</summary>
        public override string ToString() => Text;

        private int Number(string key) => checked((int)(long)all[key]);

        private List<object> Items(string key)
        {
            object found;
            return all.TryGetValue(key, out found) ? (List<object>)found : new List<object>();
        }
    }

    /// <summary>What a prompt of Generator.Batch gave: a generation or an error, the other is null.</summary>
    public sealed class Result
    {
        /// <summary>The generation, or null.</summary>
        public Generation Generation { get; }

        /// <summary>The error, or null.</summary>
        public Exception Error { get; }

        internal Result(Generation generation, Exception error)
        {
            Generation = generation;
            Error = error;
        }
    }
}
