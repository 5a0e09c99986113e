using System.Collections.Generic;
using System.Linq;

namespace Dllm
{
    /// <summary>What Hub.Verify found.</summary>
    public sealed class CacheReport
    {
        /// <summary>The name of the repository.</summary>
        public string Name { get; }

        /// <summary>How many files it has.</summary>
        public long Files { get; }

        /// <summary>How many of them have a SHA-256; small files have none.</summary>
        public long Checked { get; }

        /// <summary>Bytes that were read.</summary>
        public long Bytes { get; }

        /// <summary>The files whose content is wrong: the path, and what is wrong.</summary>
        public IReadOnlyList<KeyValuePair<string, string>> Faults { get; }

        internal CacheReport(JsonObject all)
        {
            Name = all.String("name");
            Files = all.Whole("files");
            Checked = all.Whole("checked");
            Bytes = all.Whole("bytes");
            Faults = all.List("faults")
                .Select(each => new KeyValuePair<string, string>(each.String("path"), each.String("what"))).ToArray();
        }
    }
}
