using System;

namespace Dllm
{
    /// <summary>One message of a conversation.</summary>
    public sealed class Message
    {
        /// <summary>system, user or assistant.</summary>
        public string Role { get; }

        /// <summary>What it says.</summary>
        public string Content { get; }

        /// <summary>A message of a role.</summary>
        public Message(string role, string content)
        {
            Role = role;
            Content = content;
        }
    }

    /// <summary>What a request begins with: a string that the answer continues, messages, or a text with holes.</summary>
    public sealed class Prompt
    {
        private readonly string key;
        private readonly object value;

        private Prompt(string key, object value)
        {
            if (value == null) throw new ArgumentNullException(key);
            this.key = key;
            this.value = value;
        }

        /// <summary>A text with holes: &lt;mask:N&gt; is N open tokens, &lt;mask&gt; is one.</summary>
        public static Prompt Infill(string text) => new Prompt("infill", text);

        /// <summary>A request takes either as its prompt.</summary>
        public static implicit operator Prompt(string text) => new Prompt("prompt", text);

        /// <summary>A request takes either as its prompt.</summary>
        public static implicit operator Prompt(Message[] messages) => new Prompt("messages",
            Array.ConvertAll(messages, m => new Options {["role"] = m.Role, ["content"] = m.Content}));

        /// <summary>The settings of a request with this text.</summary>
        internal Options With(Options settings) => (settings ?? new Options()).And(new Options {[key] = value});
    }
}
