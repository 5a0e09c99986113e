"""Train and decode diffusion language models. Over libdllm by ctypes; numpy is optional."""
from . import errors
from ._base import Managed, Options, schema
from ._lib import abi_version, build_info, has_feature, log_lines, log_to, names, version
from ._raw import CONTINUE, FINAL, FIXED, MASKED, PROVISIONAL, STOP
from .answer import Answer
from .asynchronous import run_async
from .batch import Batch
from .checkpoint import Checkpoint, latest_checkpoint, restore_checkpoint, save_checkpoint
from .dataset import Dataset
from .decoder import Decoder
from .engine import Engine, default_engine
from .errors import ClosedError, Error
from .event import Event
from .loader import Loader
from .lua import Lua
from .model import Model
from .objective import Objective
from .plugin import describe_plugin, plugins
from .schedule import Schedule
from .source import Source
from .task import Task
from .tensor import Tensor
from .tokenizer import Tokenizer
from .trainer import Trainer

__version__ = version()

__all__ = [
    "Answer", "Batch", "CONTINUE", "Checkpoint", "ClosedError", "Dataset", "Decoder", "Engine",
    "Error", "Event", "FINAL", "FIXED", "Loader", "Lua", "MASKED", "Managed", "Model", "Objective",
    "Options", "PROVISIONAL", "STOP", "Schedule", "Source", "Task", "Tensor", "Tokenizer",
    "Trainer", "abi_version", "build_info", "default_engine",
    "describe_plugin", "errors", "has_feature",
    "latest_checkpoint", "log_lines", "log_to", "names", "restore_checkpoint", "run_async",
    "save_checkpoint", "schema", "version",
]
