using System;
using System.Collections;
using System.Globalization;
using System.Text;

namespace Dllm
{
    /// <summary>Writes numbers, texts, lists and dictionaries as JSON.</summary>
    internal static class Json
    {
        /// <summary>JSON of what a caller gave. What JSON cannot hold is an error that names its place; name is what the
        /// caller calls the value, and a dictionary has the names of its keys.</summary>
        internal static string Checked(object value, string name)
        {
            string fault = JsonFault.Of(value, name);
            if (fault != null) throw new DllmException(Code.InvalidArgument, fault, "");
            return Write(value);
        }

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
