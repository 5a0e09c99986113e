using System.Collections;

namespace Dllm
{
    /// <summary>Finds what JSON cannot hold, with its place.</summary>
    internal static class JsonFault
    {
        /// <summary>null: there is nothing.</summary>
        internal static string Of(object value, string place)
        {
            if (value is string) return OfText((string)value, place);
            if (value is float || value is double) return OfNumber(System.Convert.ToDouble(value), place);
            if (value is IDictionary) return OfObject((IDictionary)value, place);
            return value is IEnumerable ? OfList((IEnumerable)value, place) : null;
        }

        private static string OfNumber(double value, string place)
        {
            if (!double.IsNaN(value) && !double.IsInfinity(value)) return null;
            string shown = double.IsNaN(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
            return place + " is " + shown + ": write a finite number";
        }

        private static string OfText(string text, string place)
        {
            for (int i = 0, character = 1; i < text.Length; i++, character++)
            {
                bool isPair = i + 1 < text.Length && char.IsSurrogatePair(text[i], text[i + 1]);
                if (isPair) i++;
                else if (char.IsSurrogate(text[i])) return place + ": a lone surrogate at character " + character;
            }
            return null;
        }

        private static string OfObject(IDictionary value, string place)
        {
            foreach (DictionaryEntry entry in value)
            {
                var key = (string)entry.Key;
                string fault = OfText(key, "the name \"" + key + "\"") ??
                               Of(entry.Value, place.Length > 0 ? place + ", " + key : key);
                if (fault != null) return fault;
            }
            return null;
        }

        private static string OfList(IEnumerable value, string place)
        {
            string item = place == "messages" ? "message " : place.Length > 0 ? place + ", item " : "item ";
            int at = 0;
            foreach (object part in value)
            {
                string fault = Of(part, item + ++at);
                if (fault != null) return fault;
            }
            return null;
        }
    }
}
