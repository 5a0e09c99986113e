using System;
using System.Collections.Generic;

namespace Dllm
{
    /// <summary>Settings by name: new Options { ["steps"] = 32, ["temperature"] = 0.7 }. Library.Schema has names, types
    /// and limits; RequestOptions and others have them as properties. Also any other JSON object, as the config of a
    /// model.</summary>
    public class Options : Dictionary<string, object>
    {
        /// <summary>These settings and others, such as those of a policy; a later value replaces an earlier one.</summary>
        public Options And(Options others)
        {
            var all = new Options();
            foreach (KeyValuePair<string, object> pair in this) all[pair.Key] = pair.Value;
            if (others == null) return all;
            foreach (KeyValuePair<string, object> pair in others) all[pair.Key] = pair.Value;
            return all;
        }

        /// <summary>The value of a property; null when it is not set.</summary>
        internal T Value<T>(string name)
        {
            object value;
            return TryGetValue(name, out value) && value is T ? (T)value : default(T);
        }

        internal void Put(string name, object value)
        {
            if (value == null) Remove(name);
            else this[name] = value;
        }

        /// <summary>The settings as JSON.</summary>
        public override string ToString() => Json.Write(this);

        /// <summary>Every option of a kind with its value, as JSON.</summary>
        public string Effective(string kind)
        {
            using (var made = new NativeOptions(kind, this, true))
                return made.Written((self, to, error) => Library.Api.dllm_options_to_json(self, to, error));
        }

        /// <summary>A kind with the name of the policy that has options of its own.</summary>
        internal static string KindOf(string kind, Options settings)
        {
            string policy = settings == null ? null : settings.Value<string>("policy");
            return policy == null || policy == "auto" ? kind : kind + ":" + policy;
        }
    }

    /// <summary>An options object of the library; without settings it stays NULL.</summary>
    internal sealed class NativeOptions : Noun
    {
        internal NativeOptions(string kind, Options settings, bool always = false)
        {
            Adopt(IntPtr.Zero, null);
            if (!always && (settings == null || settings.Count == 0)) return;
            byte[] text = Text.Utf8(Json.Checked(settings, ""));
            IntPtr made;
            Failure.Check(Library.Api.dllm_options_new(Text.Z(kind), out made, Failure.Here));
            Adopt(made, p => Library.Api.dllm_options_release(p));
            Failure.Check(Library.Api.dllm_options_set_json(Handle, text, text.Length, Failure.Here));
        }
    }
}
