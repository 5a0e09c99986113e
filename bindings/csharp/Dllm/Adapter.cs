using System.Collections.Generic;

namespace Dllm
{
    /// <summary>A LoRA adapter, as Model.Adapters lists it.</summary>
    public sealed class Adapter
    {
        /// <summary>The name of an adapter when a call gives none.</summary>
        public const string Default = "default";

        /// <summary>Its name in the model.</summary>
        public string Name { get; }

        /// <summary>What it adds to a matrix: lora, dora, ia3.</summary>
        public string Kind { get; }

        /// <summary>Rows of A and columns of B, unless a pattern of its file sets another one.</summary>
        public long Rank { get; }

        /// <summary>Numerator of the factor, which is alpha / rank.</summary>
        public double Alpha { get; }

        /// <summary>Whether the factor is alpha / sqrt(rank).</summary>
        public bool Rslora { get; }

        /// <summary>Whether the rows have trained lengths.</summary>
        public bool Dora { get; }

        /// <summary>Part of the inputs that training drops.</summary>
        public double Dropout { get; }

        /// <summary>Modules that the adapter has as copies.</summary>
        public IReadOnlyList<string> ModulesToSave { get; }

        /// <summary>Number of Model.SetAdapterScale; 1: as it was trained.</summary>
        public double Scale { get; }

        /// <summary>Matrices of the base with this adapter.</summary>
        public long Modules { get; }

        /// <summary>Numbers of A, of B and of lengths.</summary>
        public long Params { get; }

        /// <summary>Bytes of memory of its numbers.</summary>
        public long Bytes { get; }

        internal Adapter(JsonObject all)
        {
            Name = all.String("name");
            Kind = all.String("kind");
            Rank = all.Whole("rank");
            Alpha = all.Real("alpha");
            Rslora = all.Flag("rslora");
            Dora = all.Flag("dora");
            Dropout = all.Real("dropout");
            ModulesToSave = all.Strings("modules_to_save");
            Scale = all.Real("scale");
            Modules = all.Whole("modules");
            Params = all.Whole("params");
            Bytes = all.Whole("bytes");
        }
    }
}
