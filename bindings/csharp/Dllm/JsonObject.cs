using System.Collections.Generic;
using System.Linq;

namespace Dllm
{
    /// <summary>An object that the library wrote.</summary>
    internal sealed class JsonObject
    {
        private readonly Dictionary<string, object> all;

        internal JsonObject(string text) : this(JsonReader.Read(text)) {}

        private JsonObject(object read) { all = (Dictionary<string, object>)read; }

        internal static IEnumerable<JsonObject> List(object read) => ((List<object>)read).Select(each => new JsonObject(each));

        internal string String(string key) => (string)all[key];

        internal long Whole(string key) => (long)all[key];

        internal double Real(string key) => System.Convert.ToDouble(all[key]);

        internal bool Flag(string key) => (bool)all[key];

        internal string[] Strings(string key) => ((List<object>)all[key]).Cast<string>().ToArray();

        internal IEnumerable<JsonObject> List(string key) => List(all[key]);
    }
}
