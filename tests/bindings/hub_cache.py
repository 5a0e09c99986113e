"""A cache of the hub for the programs of a README, which run without a network."""
import shutil

NAME, COMMIT = "Qwen/Qwen3-0.6B", "c" * 40


def write_cache(folder, model):
    """Makes the cache in a folder, with the files of the folder of a model as the model NAME. Returns variables for it."""
    repository = folder / ("models--" + NAME.replace("/", "--"))
    shutil.copytree(model, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    return {"HF_HUB_CACHE": str(folder), "HF_HUB_OFFLINE": "1"}
