using System;
using System.Collections;
using System.Collections.Generic;
using System.Globalization;
using System.Text;

namespace Dllm
{
    /// <summary>Settings by name: new Options { ["steps"] = 32, ["temperature"] = 0.7 }. Library.Schema has names, types
    /// and limits. Also any other JSON object, as the config of a model.</summary>
    public sealed class Options : Dictionary<string, object>
    {
        /// <summary>The settings as JSON.</summary>
        public override string ToString() => Json.Write(this);

        /// <summary>Every option of a kind with its value, as JSON.</summary>
        public string Effective(string kind)
        {
            using (var made = new NativeOptions(kind, this, true))
                return made.Written((self, to, error) => Library.Api.dllm_options_to_json(self, to, error));
        }

        internal string String(string name)
        {
            object value;
            return TryGetValue(name, out value) ? value as string : null;
        }
    }

    /// <summary>An options object of the library; without settings it stays NULL.</summary>
    internal sealed class NativeOptions : Noun
    {
        internal NativeOptions(string kind, Options settings, bool always = false)
        {
            Adopt(IntPtr.Zero, null);
            if (!always && (settings == null || settings.Count == 0)) return;
            IntPtr made;
            Failure.Check(Library.Api.dllm_options_new(Text.Z(kind), out made, Failure.Here));
            Adopt(made, p => Library.Api.dllm_options_release(p));
            byte[] text = Text.Utf8(Json.Write(settings));
            Failure.Check(Library.Api.dllm_options_set_json(Handle, text, text.Length, Failure.Here));
        }
    }

    /// <summary>Writes numbers, texts, lists and dictionaries as JSON.</summary>
    internal static class Json
    {
        internal static string Write(object value)
        {
            var text = new StringBuilder();
            Write(text, value);
            return text.ToString();
        }

        private static void Write(StringBuilder text, object value)
        {
            if (value == null) text.Append("null");
            else if (value is string) Quote(text, (string)value);
            else if (value is bool) text.Append((bool)value ? "true" : "false");
            else if (value is float) text.Append(((float)value).ToString("R", CultureInfo.InvariantCulture));
            else if (value is double) text.Append(((double)value).ToString("R", CultureInfo.InvariantCulture));
            else if (value is IDictionary) WriteObject(text, (IDictionary)value);
            else if (value is IEnumerable) WriteList(text, (IEnumerable)value);
            else if (value is int || value is long || value is short || value is byte || value is uint)
                text.Append(Convert.ToString(value, CultureInfo.InvariantCulture));
            else throw new ArgumentException("an option cannot be a " + value.GetType().Name);
        }

        private static void WriteObject(StringBuilder text, IDictionary value)
        {
            string between = "{";
            foreach (DictionaryEntry entry in value)
            {
                text.Append(between);
                Quote(text, (string)entry.Key);
                text.Append(':');
                Write(text, entry.Value);
                between = ",";
            }
            text.Append(between == "{" ? "{}" : "}");
        }

        private static void WriteList(StringBuilder text, IEnumerable value)
        {
            string between = "[";
            foreach (object item in value)
            {
                text.Append(between);
                Write(text, item);
                between = ",";
            }
            text.Append(between == "[" ? "[]" : "]");
        }

        private static void Quote(StringBuilder text, string value)
        {
            text.Append('"');
            foreach (char c in value)
            {
                if (c == '"' || c == '\\') text.Append('\\').Append(c);
                else if (c < ' ') text.AppendFormat(CultureInfo.InvariantCulture, "\\u{0:x4}", (int)c);
                else text.Append(c);
            }
            text.Append('"');
        }
    }
}
