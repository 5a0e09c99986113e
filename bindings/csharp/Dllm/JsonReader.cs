using System;
using System.Collections.Generic;
using System.Globalization;
using System.Text;

namespace Dllm
{
    /// <summary>Reads what the library writes: dictionaries, lists, texts, long and double, bool, null.</summary>
    internal sealed class JsonReader
    {
        private readonly string text;
        private int at;

        private JsonReader(string text) { this.text = text; }

        internal static object Read(string text)
        {
            var reader = new JsonReader(text);
            object value = reader.Value();
            if (reader.Next() != '\0') throw reader.Wrong();
            return value;
        }

        private FormatException Wrong() => new FormatException("the text is not JSON at character " + at);

        /// <summary>The next character that is no space; a 0 character at the end.</summary>
        private char Next()
        {
            while (at < text.Length && char.IsWhiteSpace(text[at])) at++;
            return at < text.Length ? text[at] : '\0';
        }

        private bool Take(char c)
        {
            if (Next() != c) return false;
            at++;
            return true;
        }

        private object Value()
        {
            if (Take('"')) return Quoted();
            if (Take('[')) return List();
            if (Take('{')) return Object();
            int start = at;
            while (at < text.Length && ",]} \n\r\t".IndexOf(text[at]) < 0) at++;
            string word = text.Substring(start, at - start);
            if (word == "null") return null;
            if (word == "true" || word == "false") return word == "true";
            long whole;
            if (long.TryParse(word, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out whole)) return whole;
            double real;
            if (double.TryParse(word, NumberStyles.Float, CultureInfo.InvariantCulture, out real)) return real;
            throw Wrong();
        }

        private List<object> List()
        {
            var items = new List<object>();
            while (!Take(']'))
            {
                if (items.Count > 0 && !Take(',')) throw Wrong();
                items.Add(Value());
            }
            return items;
        }

        private Dictionary<string, object> Object()
        {
            var pairs = new Dictionary<string, object>();
            while (!Take('}'))
            {
                if (pairs.Count > 0 && !Take(',')) throw Wrong();
                if (!Take('"')) throw Wrong();
                string key = Quoted();
                if (!Take(':')) throw Wrong();
                pairs[key] = Value();
            }
            return pairs;
        }

        /// <summary>A text after its first quote.</summary>
        private string Quoted()
        {
            var read = new StringBuilder();
            while (at < text.Length)
            {
                char c = text[at++];
                if (c == '"') return read.ToString();
                read.Append(c == '\\' ? Escaped() : c);
            }
            throw Wrong();
        }

        private char Escaped()
        {
            if (at >= text.Length) throw Wrong();
            char c = text[at++];
            int known = "nrtbf".IndexOf(c);
            if (known >= 0) return "\n\r\t\b\f"[known];
            if (c != 'u') return c;
            ushort unit;
            if (at + 4 > text.Length || !ushort.TryParse(text.Substring(at, 4), NumberStyles.AllowHexSpecifier,
                                                         CultureInfo.InvariantCulture, out unit))
                throw Wrong();
            at += 4;
            return (char)unit;
        }
    }
}
